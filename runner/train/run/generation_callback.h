// Generates texts with a language model while it trains (`generate` of a recipe).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/exec/backend.h"
#include "runner/data/text_codec.h"
#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/generation.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

// Continues the prompt every `generate.every`, stores the text as an artifact and reports it. On rank 0 only.
//
// The texts are computed on a separate CPU device with a copy of the weights. So they do not change the training or the
// figures of an emulated device, and they equal those of `runner generate` with the same weights and seed.
class GenerationCallback final : public Callback {
 public:
  // All arguments must outlive the object. Throws like checked_codec().
  GenerationCallback(const schema::Generate& spec, TrainState& state, RunRecord& record, Observer& observer);

  bool needs_results(const Progress& after) const override { return every_.due(state_.reached, after); }
  void on_optimizer_step(const StepResult& /*result*/, const Progress& before) override {
    due_ = state_.weights_agree && every_.due(before, state_.reached);
  }
  void on_step_done() override;

 private:
  void copy_weights();
  void keep(const Generated& made);

  const schema::Generate& spec_;
  TrainState& state_;
  RunRecord& record_;
  Observer& observer_;
  const Interval every_;
  const data::TextCodec codec_;
  bool due_ = false;
  // Made for the first text.
  std::unique_ptr<backends::Device> device_;
  std::vector<std::shared_ptr<backends::Buffer>> weights_;  // by flat buffer
  std::optional<NextToken> model_;
};

}  // namespace runner::train
