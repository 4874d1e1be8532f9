// Builds the Programs of a run: a training step for each batch size and position in the optimizer step, an evaluation
// step for each size, and the beginning of traced regions (traced_region.h).
//
// Inputs of a Program, in order: the arrays of the DeviceLayout (states); enum BatchInput (batch inputs; without a
// batch only the last one); scalars, namely those of each optimizer group, none if the device counts updates
// (update_clock.h), or those that a traced region adds while it grows. Numbers passed by a hook are further inputs, in
// order of appearance. The Programs contain all computation of training: forward and backward pass, accumulation,
// clipping, the optimizer, the sums for train/loss, and whether the step was finite.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "runner/data/encoding.h"
#include "runner/data/inputs.h"
#include "runner/data/loader.h"
#include "runner/model/models.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/loss.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_hooks.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Batch inputs of every Program, in order, after those of the model (data::Encoding::inputs()).
enum BatchInput : int32_t {
  kLabels,     // (B) i64; with a label per token (B, T) i64; or targets (B, K) f32; of mixed samples, probabilities of
               // the classes (B, N) f32
  kMask,       // (B) f32: 1, or 0 for a padding sample
  kSampleIds,  // (B) i64
  kRandomKey,  // (2) i64: {seed, epoch}
  kDrawKey,    // (2) i64: {seed, StepHooks::draw()}; the only batch input of a Program without a batch
  kBatchInputCount
};

// Returns input `index` of a Program under construction.
Value input_value(backends::Program& program, size_t index);

// All inputs of a Program under construction.
struct StepFrame {
  std::vector<Value> arrays;                         // in the order of the layout
  std::vector<Value> parameters;                     // by ParameterId: parts of the arrays
  std::vector<Value> buffers;                        // by BufferId; a forward pass in training replaces them
  std::vector<nn::ModelInput> model_inputs;          // empty without a batch
  std::array<Value, kBatchInputCount> batch_inputs;  // unset without a batch

  // First input of the model; unset without a batch.
  Value features() const { return model_inputs.empty() ? Value{} : model_inputs.front().value; }
};

class StepBuilder {
 public:
  // `hooks`: null if there is no hook.
  StepBuilder(const schema::Recipe& recipe, const nn::Model& model, const Optimizers& optimizers,
              const DeviceLayout& layout, const data::Encoding& encoding, StepHooks* hooks);

  const schema::Recipe& recipe() const { return recipe_; }
  const data::Encoding& encoding() const { return encoding_; }
  const nn::Model& model() const { return model_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const DeviceLayout& layout() const { return layout_; }
  // Returns the group of a trained flat buffer.
  const OptimizerGroup& group_of(int32_t buffer) const {
    return optimizers_.groups[static_cast<size_t>(model_.parameters.buffers()[static_cast<size_t>(buffer)].group)];
  }

  // Returns the flat buffers of parameters that an optimizer updates (none: any optimizer).
  std::span<const int32_t> flat_buffers_of(std::optional<int32_t> optimizer) const {
    return optimizer ? flat_buffers_of_optimizers_[static_cast<size_t>(*optimizer)] : trained_buffers_;
  }

  // Inputs that a Program declares first.
  struct ProgramInputs {
    std::optional<data::BatchShape> batch;  // none: without a batch
    bool scalars = false;                   // those of the optimizer groups
    bool evaluates = false;  // parameters and buffers are those that evaluations use (DeviceLayout::evaluated_weights)
    bool training = false;   // the batch is one for training, whose samples may be mixed
    auto operator<=>(const ProgramInputs&) const = default;
  };
  // Creates a Program with only its inputs and parameters.
  StepFrame begin(backends::Program& program, const ProgramInputs& declared) const;
  // Creates a Program with the inputs of the end of an optimizer step (record_reduction()): its states are
  // SharedArrays::reduction.
  backends::Program begin_reduction(const Shard& shard, SumSource source) const;
  // The results refer to the arguments. `counted`: only in training, if the model has buffers and some samples of the
  // step are padding on any rank.
  nn::ForwardContext forward_of(backends::Program& program, StepFrame& frame, bool training, nn::HostValues& host,
                                const std::optional<nn::CountedSamples>& counted = {}) const;
  StepInputs inputs_of(nn::ForwardContext& forward, const StepFrame& frame) const;
  // Whether batches have different numbers of tokens per sample.
  bool has_lengths() const { return encoding_.has_lengths(); }
  // The optimizer whose updates the averages of buffers follow: that of the first trained parameters.
  int32_t averaging_optimizer() const { return group_of(trained_buffers_.front()).optimizer; }
  // Whether the forward pass in training has collectives. All ranks must then run it for each batch.
  bool exchanges_in_forward() const;
  // What forward_of() needs to know of a training batch.
  std::optional<nn::CountedSamples> counted_in(const data::Batch& batch) const;
  // Number of inputs of the model.
  size_t model_inputs() const { return inputs_.size(); }
  // Positions among the batch inputs, and among all inputs, of a Program with a batch. begin() records only inputs
  // before the scalars.
  size_t position_of(BatchInput input) const { return inputs_.size() + static_cast<size_t>(input); }
  size_t first_batch_input() const { return layout_.arrays().size(); }
  size_t first_scalar() const { return first_batch_input() + position_of(kBatchInputCount); }
  // Origin of a scalar of a Program with a batch.
  backends::Origin origin_of_scalar(size_t scalar) const {
    return static_cast<backends::Origin>(first_scalar() + scalar);
  }
  // Returns a parameter as a part of its buffer.
  Value parameter(Value buffer, nn::ParameterId id) const;

  struct Metric {
    std::string name;
    backends::ValueId sum, weight;
  };
  // The recorded forward part: parameters, batch, model, losses. It is the key of the plan cache.
  struct Recorded {
    backends::Program program;
    std::vector<backends::ValueId> parameters;       // by ParameterId
    std::vector<backends::ValueId> buffers;          // by BufferId: values after the forward pass
    backends::ValueId outputs = backends::kNoValue;  // unset if a hook returns only losses
    backends::ValueId targets = backends::kNoValue;  // set if a hook returns its own
    backends::ValueId losses = backends::kNoValue, weights = backends::kNoValue;
    bool own_loss = false;  // whether the losses are those of a hook's evaluation step
    // Those of the recipe without smoothing and class weights; only if evaluations_read_plain_losses().
    backends::ValueId plain_losses = backends::kNoValue, plain_weights = backends::kNoValue;
    // Factor of losses and weights: the mask, or 1 if they are of the whole batch.
    backends::ValueId counted = backends::kNoValue;
    uint64_t loss_shape = 0;  // StepLosses::loss_shape of a hook's training step
    std::vector<Metric> metrics;
    int64_t random_tensors = 0;  // number drawn by a hook
    nn::HostValues host;         // numbers passed by a hook, for the inputs after those of every Program

    // Returns those of the values that exist.
    std::vector<backends::ValueId> results() const;
    // Declares the sums of the metrics as outputs of a Program that extends this one.
    void output_metrics(backends::Program& to) const;
  };
  // Computes the elements of a value recorded so far, for a hook. May be null if there is no hook that reads values.
  using Read = std::function<std::vector<double>(const Recorded& recorded, backends::ValueId value)>;
  // `counted`: see forward_of().
  Recorded record(data::BatchShape batch, bool training, const Read& read = nullptr,
                  const std::optional<nn::CountedSamples>& counted = {}) const;
  // Like record(), but reuses the memory of an older recording.
  void record_into(Recorded& recorded, data::BatchShape batch, bool training, const Read& read,
                   const std::optional<nn::CountedSamples>& counted = {}) const;
  // Whether record() may record something different each time.
  bool varies(bool training) const;

  // Makes a Program with only the model from a forward part recorded for evaluation. Without labels it outputs the
  // model's outputs (B, N) f32. With labels it outputs, in order:
  // 1. losses and weights, (B) f32 each;
  // 2. if evaluations_read_plain_losses(): losses and weights without smoothing and class weights;
  // 3. if the labels are classes: LabelRank of each label;
  // 4. if evaluations_read_outputs(): the model's outputs;
  // 5. if a hook returns its own labels: these;
  // 6. Σ sum and Σ weight, () f64, of each hook metric.
  backends::Program forward(Recorded recorded, bool labelled) const;
  // Whether evaluations fill up their last batch: eval.pad_last. By default a TPU's do, unless the hook computes with
  // the batch.
  bool pads_evaluations() const;
  // Whether evaluations need the outputs of the model on the host: for errors of targets, and for a hook's `metrics`.
  bool evaluations_read_outputs() const;
  // Whether evaluations need a plain loss in addition to the one that they have: that of the recipe is smoothed or
  // weighted, or a hook may compute its own and eval.metrics has perplexity.
  bool evaluations_read_plain_losses() const;
  // Returns the graph that an evaluation in the user's code would make a device compile. Σ mask · loss and Σ mask ·
  // weight stay on the device; the first batch writes them, later batches add to them.
  backends::Program evaluation_graph(const Recorded& recorded, bool first) const;

 private:
  // The beginning of every recording: inputs, and parameters as parts of them.
  struct Prologue {
    backends::Program program;
    std::vector<backends::ValueId> parameters, buffers;
  };
  const Prologue& prologue(const ProgramInputs& declared) const;
  void declare_batch_inputs(backends::Program& program, const std::optional<data::BatchShape>& batch,
                            bool is_mixed) const;
  void declare_scalars(backends::Program& program) const;
  void record_losses(Recorded& recorded, StepInputs& inputs, bool training) const;
  SampleLosses losses_of(const LossSpec& spec, Value outputs, Value labels) const;
  SampleLosses losses_of_tokens(const LossSpec& spec, Value outputs, Value labels) const;
  backends::Shape outputs_of(backends::Value labels) const;
  void check_outputs(Value outputs, const backends::Shape& expected) const;

  const schema::Recipe& recipe_;
  const nn::Model& model_;
  const Optimizers& optimizers_;
  const DeviceLayout& layout_;
  const data::Encoding& encoding_;
  StepHooks* const hooks_;
  const LossSpec loss_;
  const bool mixes_;                             // whether samples of training are mixed (data::mixes())
  const std::vector<data::SampleInput> inputs_;  // of the model
  std::vector<std::vector<int32_t>> flat_buffers_of_optimizers_;
  std::vector<int32_t> trained_buffers_;
  mutable std::map<ProgramInputs, Prologue> prologues_;
};

}  // namespace runner::train
