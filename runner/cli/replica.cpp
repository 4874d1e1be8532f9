#include "runner/cli/replica.h"

#include <atomic>

#include "runner/lua/hook_file.h"
#include "runner/train/replicas.h"
#include "runner/train/run.h"
#include "schema/compose.h"
#include "schema/error.h"
#include "schema/json.h"
#include "schema/recipe_reader.h"

namespace runner::cli {
namespace {

struct Job {
  std::string recipe;
  std::vector<train::HookSource> hook;
};

Job read_job(const std::string& text) {
  Job job;
  const json::Value document = json::parse(text);
  for (const auto& [key, value] : json::members_of(document)) {
    if (key == "recipe") job.recipe = *value.text();
    if (key != "hook") continue;
    for (const auto& [path, contents] : json::members_of(value)) job.hook.push_back({path, *contents.text()});
  }
  return job;
}

// Rank 0 alone answers to people.
class Silent : public train::Observer {};

void follow(train::Replica& replica) {
  const Job job = read_job(replica.job());
  const schema::ReadResult recipe = schema::read_resolved(job.recipe);
  Silent observer;
  const std::atomic<int> stop = 0;
  train::run_replica({.recipe = recipe.recipe,
                      .record = {},
                      .params = {},
                      .store = {},
                      .resume = {},
                      .make_hooks = lua::hooks_maker(job.hook),
                      .observer = observer,
                      .summary = nullptr,
                      .stop = stop},
                     replica);
}

}  // namespace

std::string replica_job(const std::string& resolved_recipe, const std::vector<train::HookSource>& hook) {
  json::Object files;
  for (const train::HookSource& source : hook) files.push_back({source.path, source.text});
  return json::line(json::Object{{"recipe", resolved_recipe}, {"hook", files}});
}

int run_as_replica(std::span<const std::string> words) {
  try {
    train::Replica replica(words);
    follow(replica);
    return 0;
  } catch (const Error& error) {
    return exit_code(error.kind());
  }
}

}  // namespace runner::cli
