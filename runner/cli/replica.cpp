#include "runner/cli/replica.h"

#include <atomic>

#include "runner/lua/hook_file.h"
#include "runner/report/output.h"
#include "runner/train/replicas/replicas.h"
#include "runner/train/run.h"
#include "schema/compose.h"
#include "schema/error.h"
#include "schema/json.h"
#include "schema/recipe_reader.h"

namespace runner::cli {
namespace {

struct Job {
  std::string recipe;
  std::string hooks, init_from;  // files, as rank 0 calls them
  std::vector<train::HookSource> sources;
};

Job read_job(const std::string& text) {
  Job job;
  const json::Value document = json::parse(text);
  for (const auto& [key, value] : json::members_of(document)) {
    if (key == "recipe") job.recipe = *value.text();
    if (key == "hooks") job.hooks = *value.text();
    if (key == "init_from") job.init_from = *value.text();
    if (key != "sources") continue;
    for (const auto& [path, contents] : json::members_of(value)) job.sources.push_back({path, *contents.text()});
  }
  return job;
}

// Rank 0 alone answers to people; the others pass on what their hooks print.
class Follower : public train::Observer {
 public:
  void on_print(std::string_view text) override {
    out_.talk(fmt::format("{}{}\n", out_.live() ? "\r\033[K" : "", text));  // over the line that rank 0 redraws
  }

 private:
  report::Output out_;
};

void follow(train::Replica& replica) {
  const Job job = read_job(replica.job());
  schema::ReadResult recipe = schema::read_resolved(job.recipe);
  recipe.recipe.hooks = job.hooks;
  recipe.recipe.model.init_from = job.init_from;
  Follower observer;
  train::run_replica({.recipe = recipe.recipe,
                      .record = {},
                      .params = {},
                      .store = {},
                      .resume = {},
                      .make_hooks = lua::hooks_maker(job.sources, /*silent=*/true),
                      .observer = observer,
                      .summary = nullptr,
                      .metrics_document = nullptr,
                      .stop = replica.stop()},
                     replica.collectives());
}

}  // namespace

std::string replica_job(const schema::Recipe& recipe, const std::string& resolved,
                        const std::vector<train::HookSource>& hook) {
  if (recipe.num_processes == 1) return {};
  json::Object sources;
  for (const train::HookSource& source : hook) sources.push_back({source.path, source.text});
  return json::line(json::Object{
      {"recipe", resolved}, {"hooks", recipe.hooks}, {"init_from", recipe.model.init_from}, {"sources", sources}});
}

int run_as_replica(std::span<const std::string> words) {
  try {
    train::Replica replica(words);
    follow(replica);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace runner::cli
