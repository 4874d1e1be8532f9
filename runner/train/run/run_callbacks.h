// The callbacks of a run and their order.
#pragma once

#include <optional>
#include <vector>

#include "runner/train/run/checkpointer.h"
#include "runner/train/run/early_stopping.h"
#include "runner/train/run/evaluation.h"
#include "runner/train/run/hook_events.h"
#include "runner/train/run/logger.h"
#include "runner/train/run/profiling.h"
#include "runner/train/run/progress.h"
#include "runner/train/run/trackers.h"
#include "runner/train/run/unfinished_step.h"
#include "runner/train/run/warnings.h"

namespace runner::train {

// What the callbacks share. All of it must outlive them.
struct RunParts {
  TrainState& state;
  TrainLoop& loop;
  RunRecord& record;
  DeviceUsage& usage;
  Observer& observer;
  HookEvents* hook_events = nullptr;   // null: there is no hook
  Profiler* profiler = nullptr;        // null: nothing is traced
  PersistentGraphs* graphs = nullptr;  // null: no persistent cache
};

struct RunCallbacks {
  // Throws Error(kRecipe) if eval.metrics does not fit the data.
  explicit RunCallbacks(const RunParts& parts)
      : unfinished(parts.state, parts.record),
        warnings(parts.state, parts.record),
        logger(parts.state, parts.record),
        progress(parts.state, parts.record, parts.observer),
        evaluation(parts.state, parts.loop, parts.record, parts.usage, progress),
        hook_events(parts.hook_events),
        checkpointer(parts.state, parts.record, parts.usage, parts.graphs) {
    const Session& session = parts.state.session;
    Hooks* const hooks = parts.state.hooks;
    if (const auto& spec = session.recipe.train.early_stopping)
      early_stopping.emplace(*spec, parts.state, parts.record);
    if (has(hooks, HookEntry::kTrackers) && session.rank() == 0) trackers.emplace(*hooks, parts.state, parts.record);
    if (parts.profiler != nullptr) profiling.emplace(*parts.profiler, parts.state, parts.record);
  }

  // The order in which they are called: what is recorded of a step before what decides about it, hooks after both, then
  // the checkpoint, which includes what hooks have done, and at last what reports or traces the whole step.
  std::vector<Callback*> in_order() {
    std::vector<Callback*> list;
    for (Callback* callback : std::initializer_list<Callback*>{
             &unfinished, &warnings, &logger, &evaluation, optional(early_stopping), optional(trackers), hook_events,
             &checkpointer, &progress, optional(profiling)})
      if (callback != nullptr) list.push_back(callback);
    return list;
  }

  UnfinishedStep unfinished;
  Warnings warnings;
  Logger logger;
  Progress progress;
  Evaluation evaluation;
  std::optional<EarlyStopping> early_stopping;
  std::optional<Trackers> trackers;
  HookEvents* hook_events;
  Checkpointer checkpointer;
  std::optional<Profiling> profiling;

 private:
  template <class Of>
  static Callback* optional(std::optional<Of>& callback) {
    return callback ? &*callback : nullptr;
  }
};

}  // namespace runner::train
