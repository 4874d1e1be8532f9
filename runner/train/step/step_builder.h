// The Programs of a run: a training step for each batch size and place in the window, an evaluation step for each size,
// and what the segments of a hook's loop (segment.h) begin with.
//
// A Program's inputs are the arrays of the DeviceLayout (states), then enum BatchInput (batch; without a batch the last
// of them alone), then scalars: those of each optimizer group, none where the device counts (update_clock.h), or, of a
// segment, those that it asks for as it grows.  Numbers of a hook are inputs behind these, as they come.
// Everything that training computes is in these Programs: forward, derivative, accumulation, clipping, the optimizer,
// the sums behind train/loss, and whether the step was finite.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/ir/program.h"
#include "backends/plan/plan_cache.h"
#include "runner/data/encoding.h"
#include "runner/nn/models.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/gradient_message.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/loss.h"
#include "runner/train/step/shares.h"
#include "schema/recipe.h"

namespace runner::train {

// Batch inputs of every Program, in order.
enum BatchInput : int32_t {
  kFeatures,   // (B, …) f32, which of a text are numbers of tokens
  kLabels,     // (B) i64, of a text (B, T) i64, or targets (B, K) f32
  kMask,       // (B) f32: 1, or 0 for a repeated sample
  kSampleIds,  // (B) i64
  kRandomKey,  // (2) i64: {seed, epoch}
  kDrawKey,    // (2) i64: {seed, Hooks::draw()}; the only one of a Program without a batch
  kBatchInputCount
};

struct StepShape {
  int64_t batch = 0;
  bool first = true;  // of the window: gradients are written, later ones are added
  bool last = true;   // of the window: the optimizer steps
  int64_t parts = 1;  // where the loss is scaled: batches of a window
  bool operator==(const StepShape&) const = default;
};

// Positions of the outputs that a training Program with `last` returns.
enum StepOutput : int {
  kFinite = 0,    // () bool: the loss (with on_nan skip: and every gradient) is finite; else nothing was updated
  kGradNorm = 1,  // () f32, of the window's gradient before clipping; with clip_grad_norm only
};
// Next, where the device counts (update_clock.h): () bool, finite, and no gradient overflowed, else nothing was
// updated; and the factor of the rates, () f64.

// Those of a forward Program; without labels only the first.
enum ForwardOutput : int {
  kOutputs = 0,  // (B, N) f32
  kLosses = 1,   // (B) f32
  kWeights = 2,  // (B) f32
  kTargets = 3,  // as kLabels; only where a hook gives its own
};
// Behind these, and behind the outputs of each training Program, stand Σ sum and Σ weight, () f64, of each metric of a
// hook.

// The specification of a step that computes one value of a recording under way, and of one that runs what is recorded
// as it is.
backends::StepSpecification read_specification(backends::ValueId value);
backends::StepSpecification segment_specification();

// An input of a Program under construction.
Value input_value(backends::Program& program, size_t index);

// All of them.
struct StepFrame {
  std::vector<Value> arrays;                         // as in the layout
  std::vector<Value> parameters;                     // by ParameterId: parts of them
  std::array<Value, kBatchInputCount> batch_inputs;  // unset where there is no batch
};

class StepBuilder {
 public:
  // `hooks`: null, or what stands for parts of the recipe.
  StepBuilder(const schema::Recipe& recipe, const nn::Model& model, const Optimizers& optimizers,
              const DeviceLayout& layout, const data::Encoding& encoding, Hooks* hooks);

  const schema::Recipe& recipe() const { return recipe_; }
  const nn::Model& model() const { return model_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const DeviceLayout& layout() const { return layout_; }
  // Of a flat buffer that is trained.
  const OptimizerGroup& group_of(int32_t buffer) const {
    return optimizers_.groups[static_cast<size_t>(model_.parameters.buffers()[static_cast<size_t>(buffer)].group)];
  }

  // Makes a Program of its inputs and parameters alone; no `batch`: it has none.  With the scalars of the optimizer
  // groups, or without any.
  StepFrame begin(backends::Program& program, std::optional<int64_t> batch, bool with_scalars) const;
  // Makes a Program of the inputs of a window's end (complete_window): the states are SharedArrays::window.
  backends::Program begin_window(const Shares& shares) const;
  // Both refer to their arguments.
  nn::Forward forward_of(backends::Program& program, const StepFrame& frame, bool training, nn::HostValues& host) const;
  StepInputs inputs_of(nn::Forward& forward, const StepFrame& frame) const;
  // Where a scalar of a Program with a batch stands: begin() records nothing but inputs before them.
  backends::Origin origin_of_scalar(size_t scalar) const {
    return static_cast<backends::Origin>(layout_.arrays().size() + kBatchInputCount + scalar);
  }
  // A parameter as a part of what its buffer holds.
  Value parameter(Value buffer, nn::ParameterId id) const;

  struct Metric {
    std::string name;
    backends::ValueId sum, weight;
  };
  // The forward part: parameters, batch, model, losses.  What the plan cache is asked for.
  struct Recorded {
    backends::Program program;
    std::vector<backends::ValueId> parameters;       // by ParameterId
    backends::ValueId outputs = backends::kNoValue;  // unset where a hook gives losses only
    backends::ValueId targets = backends::kNoValue;  // set where a hook gives its own
    backends::ValueId losses = backends::kNoValue, weights = backends::kNoValue;
    backends::ValueId counted =
        backends::kNoValue;  // what both are multiplied by: the mask, or 1 where they are of the whole batch
    uint64_t form = 0;       // of the loss of a hook's training step: StepLosses::form
    std::vector<Metric> metrics;
    int64_t random_tensors = 0;  // that a hook has drawn
    nn::HostValues host;         // that a hook hands over: of the inputs behind those of every Program

    // All of these that are there.
    std::vector<backends::ValueId> results() const;
    // Declares the sums of the metrics as outputs of a Program that goes on from this one.
    void output_metrics(backends::Program& to) const;
  };
  // `read`: gives a hook the elements of a value of what is recorded so far; it may be null where none can ask.
  using Read = std::function<std::vector<double>(const Recorded& recorded, backends::ValueId value)>;
  Recorded record(int64_t batch, bool training, const Read& read = nullptr) const;
  // The same in place of an older recording, whose memory the new one takes.
  void record_into(Recorded& recorded, int64_t batch, bool training, const Read& read) const;
  // Whether record() may record something else each time.
  bool varies(bool training) const;

  struct Completed {
    backends::Program program;
    std::vector<bool> reached;                    // by ParameterId: it is trained, and the losses depend on it
    std::vector<backends::TracedScalar> numbers;  // of a hook's update rules, which are constants of the Program
  };
  // A training step made from a recorded forward part.
  Completed complete(const Recorded& recorded, const StepShape& shape, const MessageLayout& message = {}) const;
  // The model alone, made from a forward part recorded for evaluation; returns ForwardOutput.
  backends::Program forward(Recorded recorded, bool labelled) const;
  // What an evaluation in the user's code has a device compile in its place: Σ mask · loss and Σ mask · weight are kept
  // on the device, where the first batch writes and later ones add.
  backends::Program evaluation_graph(const Recorded& recorded, bool first) const;

  // Everything but the recorded Program that decides what complete() makes of it: with that the key of the plan cache.
  // Equal for steps of different recipes that differ in rates alone, where those are scalars.
  backends::StepSpecification specification(const Recorded& recorded, const StepShape& shape) const;
  // The same for forward().
  backends::StepSpecification forward_specification(const Recorded& recorded, bool labelled, bool first) const;

 private:
  // What every recording begins with: the inputs, and the parameters as parts of them.
  struct Prologue {
    backends::Program program;
    std::vector<backends::ValueId> parameters;
  };
  const Prologue& prologue(std::optional<int64_t> batch, bool with_scalars) const;
  void declare_batch_inputs(backends::Program& program, std::optional<int64_t> batch) const;
  void declare_scalars(backends::Program& program) const;

  const schema::Recipe& recipe_;
  const nn::Model& model_;
  const Optimizers& optimizers_;
  const DeviceLayout& layout_;
  const data::Encoding& encoding_;
  void record_losses(Recorded& recorded, StepInputs& inputs, bool training) const;
  SampleLosses losses_of_recipe(Value outputs, Value labels) const;
  SampleLosses losses_of_tokens(Value outputs, Value labels) const;
  backends::Shape outputs_of(int64_t batch) const;
  void check_outputs(Value outputs, const backends::Shape& wanted) const;

  Hooks* const hooks_;
  const schema::Loss loss_;
  // By batch size and whether the scalars are there, made when first asked for.
  mutable std::map<std::pair<std::optional<int64_t>, bool>, Prologue> prologues_;
};

}  // namespace runner::train
