#include "runner/cli/rank.h"

#include <atomic>
#include <utility>

#include "runner/cli/interrupt.h"
#include "runner/formats/reading_watch.h"
#include "runner/lua/hook_file.h"
#include "runner/report/output.h"
#include "runner/train/run/rank_processes.h"
#include "runner/train/run/run.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {
namespace {

struct Job {
  std::string recipe;
  std::string hooks, init_from, pretrained;  // file names as on rank 0
  std::vector<train::HookSource> sources;
};

Job read_job(const std::string& text) {
  Job job;
  const json::Value document = json::parse(text);
  for (const auto& [key, value] : json::members_of(document)) {
    if (key == "recipe") job.recipe = *value.text();
    if (key == "hooks") job.hooks = *value.text();
    if (key == "init_from") job.init_from = *value.text();
    if (key == "pretrained") job.pretrained = *value.text();
    if (key != "sources") continue;
    for (const auto& [path, contents] : json::members_of(value)) job.sources.push_back({path, *contents.text()});
  }
  return job;
}

// Prints only the output of hooks; rank 0 prints everything else.
class Follower : public train::Observer {
 public:
  void on_print(std::string_view text) override {
    out_.redraw_line(fmt::format("{}\n", text));  // overwrites the line that rank 0 redraws
  }

 private:
  report::Output out_;
};

// `data`: the data sets, or null to read them. `cores`: see RunRequest::cores.
void follow(const schema::Recipe& recipe, const std::vector<train::HookSource>& hook, const std::atomic<int>& stop,
            const data::SharedData& data, backends::ProcessGroup& ranks,
            const std::vector<std::vector<int>>& cores = {}) {
  Follower observer;
  train::run_rank({.recipe = recipe,
                   .make_hooks = lua::hooks_maker(hook),
                   .observer = observer,
                   .stop = stop,
                   .data = data,
                   .cores = cores},
                  ranks);
}

schema::ReadResult recipe_of(const Job& job) {
  schema::ReadResult recipe = schema::read_resolved(job.recipe);
  recipe.recipe.hooks = job.hooks;
  recipe.recipe.model.init_from = job.init_from;
  recipe.recipe.model.pretrained = job.pretrained;
  return recipe;
}

void follow_as_process(train::RankProcess& process) {
  const Job job = read_job(process.launched().job());
  follow(recipe_of(job).recipe, job.sources, process.launched().stop(), /*data=*/nullptr, process.group());
}

}  // namespace

train::Follow follower(std::vector<train::HookSource> hook) {
  return [hook = std::move(hook)](const train::RunRequest& of_rank_0, backends::ProcessGroup& ranks) {
    follow(of_rank_0.recipe, hook, of_rank_0.stop, of_rank_0.data, ranks);
  };
}

std::string rank_job(const schema::Recipe& recipe, const std::string& resolved,
                     const std::vector<train::HookSource>& hook) {
  if (recipe.num_processes == 1) return {};
  json::Object sources;
  for (const train::HookSource& source : hook) sources.push_back({source.path, source.text});
  return json::line(json::Object{{"recipe", resolved},
                                 {"hooks", recipe.hooks},
                                 {"init_from", recipe.model.init_from},
                                 {"pretrained", recipe.model.pretrained},
                                 {"sources", sources}});
}

int run_as_rank(std::span<const std::string> words) {
  try {
    train::RankProcess process(words);
    follow_as_process(process);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

// Errors are reported to rank 0, which prints them and whose exit code is that of the launcher.
int follow_launched(train::MpiRanks& ranks) {
  formats::set_reading_notice(nullptr);  // rank 0 alone prints
  try {
    Interrupt interrupt(Interrupt::Messages::kNone);
    const Job job = read_job(ranks.share_job("", interrupt.count()));
    const schema::ReadResult recipe = recipe_of(job);
    follow(recipe.recipe, job.sources, interrupt.count(), /*data=*/nullptr, train::begin_run_with(ranks, recipe.recipe),
           ranks.cores());
  } catch (const std::exception& error) {
    ranks.fail(fmt::format("rank {}: {}", ranks.rank(), error_of(error).message()));  // unless that is known
  }
  return 0;
}

}  // namespace runner::cli
