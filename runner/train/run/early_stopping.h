// Stops a run whose metric has not improved for `train.early_stopping.patience` evaluations. Comes after Evaluation.
#pragma once

#include <cmath>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"
#include "schema/base/json.h"

namespace runner::train {

class EarlyStopping final : public Callback {
 public:
  // All arguments must outlive the object.
  EarlyStopping(const schema::EarlyStopping& spec, TrainState& state, RunRecord& record)
      : spec_(spec), state_(state), record_(record) {}

  void on_evaluation_due() override {
    Patience& patience = state_.patience;
    const double value = state_.session.of_main(record_.points().newest(spec_.metric));
    const double gain = spec_.mode == schema::Mode::kMax ? value - patience.best.value_or(-INFINITY)
                                                         : patience.best.value_or(INFINITY) - value;
    if (gain > spec_.min_delta) {
      patience = {value, 0};
      return;
    }
    if (++patience.evaluations < spec_.patience) return;
    state_.control.stopped_early = true;
    record_.event(store::Level::kInfo, "early_stopping",
                  json::line(json::Object{
                      {"step", state_.step()}, {"metric", spec_.metric}, {"evaluations", patience.evaluations}}));
  }

 private:
  const schema::EarlyStopping& spec_;
  TrainState& state_;
  RunRecord& record_;
};

}  // namespace runner::train
