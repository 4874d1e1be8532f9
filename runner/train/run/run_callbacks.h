// The callbacks of a run and their order.
#pragma once

#include <optional>
#include <vector>

#include "runner/train/run/checkpoint/callback.h"
#include "runner/train/run/evaluation_callback.h"
#include "runner/train/run/generation_callback.h"
#include "runner/train/run/hook_callback.h"
#include "runner/train/run/logging_callback.h"
#include "runner/train/run/profiler.h"

namespace runner::train {

// Objects that the callbacks share. All of them must outlive the callbacks.
struct RunParts {
  TrainState& state;
  RunRecord& record;
  DeviceRecord& device;
  Observer& observer;
  HookCallback* hook_callback = nullptr;  // null: there is no hook
  Profiler* profiler = nullptr;           // null: nothing is traced
};

struct RunCallbacks {
  // Throws Error(kRecipe) if eval.metrics does not fit the data, and like GenerationCallback().
  explicit RunCallbacks(const RunParts& parts)
      : unfinished(parts.state, parts.record),
        warnings(parts.state, parts.record),
        logger(parts.state, parts.record),
        progress(parts.state, parts.record, parts.observer),
        evaluation(parts.state, parts.record, parts.device, progress),
        hook_callback(parts.hook_callback),
        checkpointer(parts.state, parts.record, parts.device) {
    const Session& session = parts.state.session;
    Hooks* const hooks = parts.state.hooks;
    if (const auto& spec = session.recipe.train.early_stopping)
      early_stopping.emplace(*spec, parts.state, parts.record);
    if (const auto& spec = session.recipe.generate; spec && session.rank() == 0)
      generation.emplace(*spec, parts.state, parts.record, parts.observer);
    if (has(hooks, HookEntry::kTrackers) && session.rank() == 0) trackers.emplace(*hooks, parts.state, parts.record);
    if (parts.profiler != nullptr) profiling.emplace(*parts.profiler, parts.state, parts.record);
  }

  // The order in which they are called. What records a step comes before what decides about it. Hooks come after both.
  // The checkpoint comes after hooks, because it includes what they have done. What reports or traces the whole step
  // comes last.
  std::vector<Callback*> in_order() {
    std::vector<Callback*> list;
    for (Callback* callback : std::initializer_list<Callback*>{
             &unfinished, &warnings, &logger, &evaluation, optional(early_stopping), optional(trackers), hook_callback,
             optional(generation), &checkpointer, &progress, optional(profiling)})
      if (callback != nullptr) list.push_back(callback);
    return list;
  }

  UnfinishedStepCallback unfinished;
  WarningCallback warnings;
  LoggingCallback logger;
  ProgressCallback progress;
  EvaluationCallback evaluation;
  std::optional<EarlyStoppingCallback> early_stopping;
  std::optional<TrackerCallback> trackers;
  HookCallback* hook_callback;
  std::optional<GenerationCallback> generation;
  CheckpointCallback checkpointer;
  std::optional<ProfilerCallback> profiling;

 private:
  template <class Of>
  static Callback* optional(std::optional<Of>& callback) {
    return callback ? &*callback : nullptr;
  }
};

}  // namespace runner::train
