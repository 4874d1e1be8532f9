// Points and evaluations after optimizer steps: metrics of training since the last points, and evaluations with early
// stopping.
//
// Belongs to the training thread. Reports only on request; logging_due() and evaluation_due() tell when.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/checkpoint.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class WindowLog {
 public:
  // All arguments must outlive the object. `hooks`: null if there is no hook.
  WindowLog(Session& session, RunRecord& record, Hooks* hooks);

  // Restores the state of early stopping from a checkpoint.
  void set_patience(const Patience& patience) { patience_ = patience; }
  void stop_where_patience_is_over();
  // Starts the clock of train/samples_per_s.
  void start() { logged_at_ = std::chrono::steady_clock::now(); }

  // Takes a finished optimizer step.
  void take(const TrainingWindow& window, const Reached& before, const Reached& after);
  // Whether an optimizer step that ends at `after` will have points or an evaluation.
  bool is_due(const Reached& before, const Reached& after) const;
  bool logging_due() const { return logging_due_; }
  bool evaluation_due() const { return evaluation_due_; }
  bool evaluates() const { return evaluator_.has_value(); }

  // Records the points since the last call.
  void log();
  // Evaluates, records the metrics, and updates schedule and early stopping. Returns the metrics by name.
  // `interrupted`: see Evaluator::run().
  std::map<std::string, double> evaluate(const std::function<bool()>& interrupted);

  // Whether the last optimizer step has been evaluated.
  bool evaluated() const { return evaluated_; }
  bool stopped_early() const { return stopped_early_; }
  const Patience& patience() const { return patience_; }
  int64_t samples() const { return samples_; }  // since the process started

 private:
  int64_t step() const { return session_.trainer.counters.windows; }
  std::string_view what_weighs() const;
  void warn_of_unrecorded();
  void check_patience(const schema::EarlyStopping& spec);

  Session& session_;
  RunRecord& record_;
  const bool own_loop_, own_step_;  // of the hook
  const Interval log_every_, evaluate_every_;
  std::optional<Evaluator> evaluator_;

  TrainingWindow window_;  // the last one
  int64_t samples_ = 0, logged_samples_ = 0;
  std::chrono::steady_clock::time_point logged_at_;
  Patience patience_;
  bool logging_due_ = false;     // after that optimizer step
  bool evaluation_due_ = false;  // since some earlier optimizer step
  bool evaluated_ = false, stopped_early_ = false;
  bool warned_of_no_weight_ = false, warned_of_nan_ = false;
  int64_t evaluations_ = 0;  // since the process started
};

}  // namespace runner::train
