// The model of a run, loaded from one of its states, for eval and predict. Not thread-safe.
#pragma once

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/report/output.h"
#include "runner/train/run/stored_model.h"

namespace runner::cli {

struct LoadedModel {
  ChosenState chosen;
  schema::ReadResult recipe;
  RecordedHook hook;  // the hook with which the weights were trained
  train::StoredModel model;
  bool is_newest_state;  // no other was chosen

  // Throws like load_chosen_state(), and whatever the recorded recipe or hook throws.
  LoadedModel(const StateOptions& options, report::Output& out);

  // Prints the warnings about the hook, those of the last evaluation or prediction, and note_better_state() if no state
  // was chosen.
  void talk_warnings(report::Output& out) const;
};

}  // namespace runner::cli
