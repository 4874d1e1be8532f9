// The states of one run: which moments deserve one, saving them in the background, and what became of each.
//
// Saves run on the writer's thread; collect() takes in those that are done.  A failed save is a warning (of the writer)
// and the next one goes on; only the last of a run has to succeed.  Not thread-safe; belongs to the training thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "runner/train/states/checkpoint.h"
#include "schema/recipe.h"
#include "store/run_writer.h"

namespace runner::train {

class StateKeeper {
 public:
  // Both arguments must outlive the keeper.
  StateKeeper(store::RunWriter& writer, const schema::CheckpointSpec& spec) : writer_(writer), spec_(spec) {}

  // Goes on from a state of an earlier attempt; `states`: those that the run has.
  void resume(int64_t step, const std::vector<store::StateInfo>& states);

  // Whether checkpoint.keep_best would keep a state that is saved now, with these metrics.
  bool is_among_best(const std::map<std::string, double>& metrics) const;

  // Saves the trainer, if there is no state of this moment yet.  `metrics`: those recorded at this step, which
  // keep_best ranks the state by.  `pinned`: retention leaves it alone.  Throws Error(kRun) where a parameter is not
  // finite: such a state is never saved.
  void save(Trainer& trainer, const RunState& state, const char* reason, bool pinned,
            const std::map<std::string, double>& metrics);

  // Bytes of the largest state saved here.
  int64_t largest_state() const { return largest_state_; }

  // What has been saved of this step is not what the trainer holds any more.
  void forget() { saved_at_ = {}; }

  // Takes in finished saves.
  void collect();
  // Waits for all.  Throws the Error(kStore) of the newest save if that one failed.
  void wait();

 private:
  void take_first();
  void note(const std::map<std::string, double>& metrics);

  store::RunWriter& writer_;
  const schema::CheckpointSpec& spec_;
  std::deque<store::Outcome<store::StateInfo>> saves_;  // under way, oldest first
  // Of the newest state, under way or done.
  struct Moment {
    int64_t step = -1;
    int64_t batches = 0;  // of the window under way
    bool operator==(const Moment&) const = default;
  };
  Moment saved_at_;
  int64_t largest_state_ = 0;
  std::vector<double> best_;  // values of keep_best's metric, best first
};

}  // namespace runner::train
