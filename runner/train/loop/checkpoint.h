// The part of a checkpoint that the host keeps: what continues a run in addition to its arrays (train_state.h). Value
// types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/optimizer_step.h"

namespace runner::train {

// Early stopping: the best metric value and the number of evaluations since.
struct Patience {
  std::optional<double> best;
  int64_t evaluations = 0;
  bool operator==(const Patience&) const = default;
};

// Events that have not occurred yet after an optimizer step, because an error or an interruption prevented them.
struct PendingEvents {
  bool evaluation = false;  // an evaluation is due
  bool evaluated = false;   // evaluated, but on_evaluation has not been called
  bool ends_epoch = false;  // on_epoch_end has not been called; neither has on_step_end
  bool operator==(const PendingEvents&) const = default;
};

// A section of a checkpoint with a sum that a rank above 0 has accumulated in an optimizer step in progress
// (run/checkpoint/rank_parts.h).
struct RankPart {
  std::string name;  // "rank/1/gradient/0.weight"
  std::string meta;
  std::vector<std::byte> bytes;
};

// State of a run on the host, after an optimizer step or, with the declared loop, within one.
struct Checkpoint {
  data::Position position;  // of the next batch
  StepResult result;        // in progress; without batches: none
  // Epochs finished at the end of the last optimizer step, which intervals count from. A hook's training loop may have
  // left epochs since.
  int64_t reached_epoch = 0;
  std::optional<PendingEvents> pending;  // of the last optimizer step; none: nothing remains
  // Batches per optimizer step, of the current one and of later ones. 0: an older checkpoint; use the recipe's value.
  int64_t accumulation = 0, next_accumulation = 0;
  // Position independent of the batch size: used positions of the epoch's order, samples per global batch (0: an older
  // checkpoint without it), and Session::extra_steps().
  int64_t used = 0, global_batch = 0, extra_steps = 0;
  int64_t max_micro_batch = 0;  // GradAccumulation::max_micro_batch
  int64_t not_finite = 0;       // optimizer steps of the run that were skipped for this, not for a gradient overflow
  Counters counters;
  optim::PlateauState plateau;
  Patience patience;
  StepMetrics metrics;
  std::string hook;  // Hooks::state(); empty without hook
  data::Encoding encoding;
  std::string train_data;  // Fingerprint::to_string()
  std::string eval_data;   // empty: none
  // Number of ranks that have a part of the sums for an optimizer step to come. 1: rank 0 has the sums over all.
  int64_t ranks = 1;
  std::vector<RankPart> rank_parts = {};  // of the ranks above 0; on rank 0 only
};

}  // namespace runner::train
