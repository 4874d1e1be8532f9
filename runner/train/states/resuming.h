// Going on from a state of a run in the store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/train/loop/session.h"
#include "runner/train/states/checkpoint.h"
#include "store/queries.h"

namespace runner::train {

// A state that a session went on from, and the warnings about newer ones that cannot be used.
struct Resumed {
  store::StateInfo info;
  RunState state;
  std::vector<std::string> warnings;
};

// Restores trainer and schedule from the newest state that is whole.  Throws Error(kNotFound) where there is none at
// all, where none is whole the Error of the newest, and Error(kData) where the data are not those of the state.
Resumed restore_newest(store::Store& store, const store::RunRow& run, Session& session);

// Puts model, optimizers and schedule back to a state of the run under way (none: the newest); the place in the data
// and what has been counted stay as they are, and train/loss begins anew.  Throws Error(kRun) where there is none.
RunState restore_values(store::Store& store, const store::RunRow& run, std::optional<int64_t> id, Session& session);

// Where a session goes on from a state, at the next sample of the same order, and how long it has left.  `warning` is
// set where its global batches are of another size than those before.
data::Position place_of(const RunState& state, Session& session, std::optional<std::string>& warning);

// What was recorded before a state, and will not be recorded again by who goes on from it.
store::Recorded recorded_before(const Resumed& found);
// The metrics of a run as far as that.
std::vector<store::MetricSummary> metrics_until(store::Store& store, const store::RunRow& run,
                                                const store::Recorded& recorded);

// The newest step that any metric of a run has a point of; 0: none.
int64_t last_recorded_step(store::Store& store, const store::RunRow& run);

// What to warn of when a run that has become longer, restored, stretches its schedule with it, so that the rate jumps
// back up; `metrics` are those recorded before.
std::optional<std::string> stretched_schedule(const Session& session, const std::vector<store::MetricSummary>& metrics);

}  // namespace runner::train
