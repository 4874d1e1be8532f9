#include "runner/cli/store_access.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "runner/cli/shell_word.h"
#include "runner/formats/used_files.h"
#include "runner/report/format.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/json.h"
#include "schema/recipe/metric_names.h"

namespace runner::cli {
namespace {

// By which metric states are compared.
struct Ranking {
  std::string metric;
  bool maximize;
};

bool maximizes(const store::RunDetails& run, const std::string& metric) {
  const auto found = std::ranges::find(run.metrics, metric, &store::MetricSummary::name);
  if (found == run.metrics.end() || !found->larger_is_better) return schema::larger_is_better(metric);
  return *found->larger_is_better != 0;
}

std::string parameter(const store::RunDetails& run, std::string_view key) {
  const auto found = std::ranges::find(run.params, key, &store::Param::key);
  const auto* const text = found != run.params.end() ? std::get_if<std::string>(&found->value) : nullptr;
  return text != nullptr ? *text : "";
}

// The metric that the recipe watches: that of keep_best, of early stopping, else eval/loss.
Ranking ranking_of(const store::RunDetails& run) {
  for (const std::string_view section : {"checkpoint.keep_best", "train.early_stopping"}) {
    const std::string metric = parameter(run, fmt::format("{}.metric", section));
    if (metric.empty()) continue;
    const std::string mode = parameter(run, fmt::format("{}.mode", section));
    return {metric, mode == "max" || (mode != "min" && maximizes(run, metric))};
  }
  return {"eval/loss", false};
}

// States that a later attempt has not superseded, best first.
std::vector<store::StateInfo> ranked_states(const store::RunDetails& run, const Ranking& ranking) {
  std::vector<store::StateInfo> states = run.states;
  std::erase_if(states, [](const store::StateInfo& state) { return state.superseded; });
  return store::ranked(std::move(states), ranking.metric, ranking.maximize);
}

store::StateInfo best_state(const store::RunDetails& run, std::string_view text) {
  Ranking ranking = ranking_of(run);
  if (text != store::kBestState) {
    const std::optional<std::string> metric = store::best_metric(text);
    RUN_CHECK(metric, ErrorKind::kUsage, "--state {}: expected a state's id or name, best or best(METRIC)", text);
    ranking = {*metric, maximizes(run, *metric)};
  }
  const std::vector<store::StateInfo> best = ranked_states(run, ranking);
  RUN_CHECK(!best.empty(), ErrorKind::kNotFound,
            "--state {}: no state of run {} was saved with a value of {}; `runner states {}` lists its states, and "
            "checkpoint.keep_best saves the best ones",
            text, run.run.uid, ranking.metric, run.run.uid);
  return best.front();
}

}  // namespace

std::filesystem::path store_path(const Options& options) {
  const char* const variable = std::getenv("RUNNER_DB");
  const char* const otherwise = variable != nullptr && *variable != '\0' ? variable : "runner.db";
  std::filesystem::path path = options.db.empty() ? otherwise : options.db.c_str();
  formats::remember_used_file(path, formats::FileRole::kStore);
  return path;
}

store::Store open_store(const Options& options, store::Access access) {
  return store::Store::open(store_path(options), access);
}

std::string with_store_option(std::string text, const Options& options) {
  if (options.db.empty()) return text;
  const std::string option = fmt::format(" --db {}", shell_word(options.db));
  for (const auto& [before, after] : {std::pair{"`runner ", '`'}, std::pair{"next: runner ", '\n'}}) {
    size_t at = 0;
    while ((at = text.find(before, at)) != std::string::npos) {
      at += std::string_view(before).size();
      const size_t end = text.find(after, at);
      if (end == std::string::npos) break;
      const Command* const command =
          find_command(std::string_view(text).substr(at, text.find_first_of(" `\n", at) - at));
      if (command == nullptr || (command->group != Group::kStore && command->group != Group::kTrain)) continue;
      text.insert(end, option);
      at = end + option.size();
    }
  }
  return text;
}

namespace {

json::Value value_with_store_option(const json::Value& value, const Options& options) {
  if (const auto* const text = value.text()) return with_store_option(*text, options);
  if (const json::Object& members = json::members_of(value); !members.empty()) {
    json::Object object;
    for (const auto& [key, member] : members) object.emplace_back(key, value_with_store_option(member, options));
    return object;
  }
  const json::List& elements = json::elements_of(value);
  if (elements.empty()) return value;
  return json::list_of(elements, [&](const json::Value& each) { return value_with_store_option(each, options); });
}

}  // namespace

std::string document_with_store_option(std::string document, const Options& options) {
  if (options.db.empty()) return document;
  return json::text(value_with_store_option(json::parse(document), options));
}

std::vector<store::RunRow> find_all(store::Store& store, const std::vector<std::string>& selectors,
                                    store::Trash trash) {
  std::vector<store::RunRow> runs;
  for (const std::string& selector : selectors) {
    for (store::RunRow& run : store::find_runs(store, selector, trash))
      if (std::ranges::find(runs, run.id, &store::RunRow::id) == runs.end()) runs.push_back(std::move(run));
  }
  return runs;
}

store::StateInfo state_named(const store::RunDetails& run, const std::string& text) {
  if (store::selects_best(text)) return best_state(run, text);
  for (const store::StateInfo& state : run.states)
    if (store::is_selected(state, text) && !(text.empty() && state.superseded)) return state;
  RUN_CHECK(text.empty(), ErrorKind::kNotFound, "run {} has no state {}{}; `runner states {}` lists its states",
            run.run.uid, text, store::is_state_name(text) ? store::named_states_text(run.states) : "", run.run.uid);
  fail(ErrorKind::kNotFound, "run {} has no state yet; `runner exec` saves one at the end", run.run.uid);
}

std::string better_state_note(const store::RunDetails& run) {
  const Ranking ranking = ranking_of(run);
  const std::vector<store::StateInfo> best = ranked_states(run, ranking);
  if (best.empty()) return "";
  const store::StateInfo newest = state_named(run, "");
  const double least = store::metric_of(best.front(), ranking.metric), value = store::metric_of(newest, ranking.metric);
  if (best.front().id == newest.id || least == value) return "";
  std::string best_text = report::rounded_text(least), text = report::rounded_text(value);
  if (best_text == text) std::tie(best_text, text) = std::pair(fmt::format("{}", least), fmt::format("{}", value));
  return fmt::format(
      "note: state {} (step {}) has the best {}, {}; the newest state {} (step {}) has {}; --state best chooses the "
      "best",
      best.front().id, best.front().step, ranking.metric, best_text, newest.id, newest.step,
      std::isnan(value) ? "none" : text);
}

void note_better_state(const store::RunDetails& run, report::Output& out) {
  if (const std::string note = better_state_note(run); !note.empty()) out.say(note);
}

void note_namesakes(store::Store& store, const store::RunRow& run, const std::string& selector, report::Output& out) {
  if (run.name != selector || run.uid == selector || run.trashed_ms) return;
  const int64_t count = store::count_named(store, selector, store::Trash::kHidden);
  if (count > 1) out.say(fmt::format("note: {} runs are named {}; the newest is used: {}", count, selector, run.uid));
}

ChosenState load_chosen_state(const Options& options, const std::string& selector, const std::string& state,
                              report::Output& out) {
  store::Store store = open_store(options);
  store::RunDetails run = store::show_run(store, store::find_run(store, selector));
  note_namesakes(store, run.run, selector, out);
  const store::StateInfo info = state_named(run, state);
  return {std::move(run), store::load_state(store, info.id, train::is_of_evaluation)};
}

}  // namespace runner::cli
