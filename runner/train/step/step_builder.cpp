#include "runner/train/step/step_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/ir/needed.h"
#include "backends/ir/ops.h"
#include "runner/data/augment.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/loss.h"
#include "runner/train/step/step_recorder.h"
#include "schema/base/error.h"

namespace runner::train {

Value input_value(backends::Program& program, size_t index) {
  return {&program, program.inputs()[index].value};
}
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::InputKind;
using backends::Program;
using backends::Shape;
using backends::TensorType;
using backends::Value;
using backends::ValueId;

// (B, …) for a batch of samples of one shape.
Shape batched(int64_t batch, const Shape& sample) {
  std::vector<int64_t> dims = {batch};
  dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
  return Shape(dims);
}

TensorType label_type(const data::Encoding& encoding, const data::BatchShape& batch, bool is_mixed) {
  if (is_mixed) return {DType::kF32, Shape{batch.samples, encoding.outputs}};
  if (encoding.has_token_labels()) return {DType::kI64, Shape{batch.samples, encoding.label_width(batch.length)}};
  if (encoding.label_kind == data::LabelKind::kClass) return {DType::kI64, Shape{batch.samples}};
  return {DType::kF32, Shape{batch.samples, encoding.outputs}};
}

DType dtype_of(schema::Precision precision) {
  switch (precision) {
    case schema::Precision::kNo: return DType::kF32;
    case schema::Precision::kFp16: return DType::kF16;
    case schema::Precision::kBf16: return DType::kBf16;
  }
  return DType::kF32;
}

}  // namespace

StepBuilder::StepBuilder(const schema::Recipe& recipe, const nn::Model& model, const Optimizers& optimizers,
                         const DeviceLayout& layout, const data::Encoding& encoding, StepHooks* hooks)
    : recipe_(recipe),
      model_(model),
      optimizers_(optimizers),
      layout_(layout),
      encoding_(encoding),
      hooks_(hooks),
      loss_(loss_of(recipe.train, encoding)),
      mixes_(data::mixes(recipe.data.train.augment)),
      inputs_(encoding.inputs()),
      flat_buffers_of_optimizers_(optimizers.names.size()) {
  const auto refuse = [&](bool is_set, const char* key, const char* why) {
    RUN_CHECK(!is_set || !exchanges_in_forward(), ErrorKind::kRecipe,
              "{0} cannot be combined with a batch norm that has statistics of all ranks (sync): {1}; remove sync or "
              "{0}",
              key, why);
  };
  refuse(recipe.train.local_sgd.has_value(), "train.local_sgd", "each rank trains on its own");
  refuse(recipe.train.auto_batch_size, "train.auto_batch_size",
         "ranks could divide their batches into different numbers of micro-batches");
  for (int32_t b = 0; b < std::ssize(model.parameters.buffers()); ++b) {
    if (model.parameters.buffers()[static_cast<size_t>(b)].group < 0) continue;
    trained_buffers_.push_back(b);
    flat_buffers_of_optimizers_[static_cast<size_t>(group_of(b).optimizer)].push_back(b);
  }
}

bool StepBuilder::varies(bool training) const {
  return has(hooks_, HookEntry::kModel) ||
         has(hooks_, training ? HookEntry::kTrainingStep : HookEntry::kEvaluationStep);
}

void StepBuilder::declare_batch_inputs(Program& program, const std::optional<data::BatchShape>& batch,
                                       bool is_mixed) const {
  const int64_t size = batch ? batch->samples : 0;
  const TensorType types[kBatchInputCount] = {label_type(encoding_, batch.value_or(data::BatchShape()), is_mixed),
                                              {DType::kF32, Shape{size}},
                                              {DType::kI64, Shape{size}},
                                              {DType::kI64, Shape{2}},
                                              {DType::kI64, Shape{2}}};
  constexpr const char* kNames[kBatchInputCount] = {"labels", "mask", "sample_ids", "random_key", "draw_key"};
  if (batch)
    for (const data::SampleInput& input : inputs_)
      program.input(InputKind::kBatch, input.name,
                    {input.dtype, batched(size, batch->length > 0 ? Shape{batch->length} : input.shape)});
  for (size_t i = batch ? kLabels : kDrawKey; i < kBatchInputCount; ++i)
    program.input(InputKind::kBatch, kNames[i], types[i]);
}

void StepBuilder::declare_scalars(Program& program) const {
  if (layout_.has(ArrayRole::kClock)) return;
  for (const nn::FlatBuffer& buffer : model_.parameters.buffers()) {
    if (buffer.group < 0) continue;
    for (const std::string_view name : optim::scalar_names(optimizers_.rule(buffer.group)))
      program.input(InputKind::kScalar, fmt::format("{} {}", name, buffer.group), {DType::kF32, {}});
  }
}

const StepBuilder::Prologue& StepBuilder::prologue(const ProgramInputs& declared) const {
  const auto [entry, is_new] = prologues_.try_emplace(declared);
  Prologue& prologue = entry->second;
  if (!is_new) return prologue;
  Program& program = prologue.program;
  for (const DeviceArray& array : layout_.arrays()) program.input(InputKind::kState, array.name, array.type);
  declare_batch_inputs(program, declared.batch, declared.training && mixes_);
  if (declared.scalars) declare_scalars(program);
  for (nn::ParameterId id = 0; id < std::ssize(model_.parameters.parameters()); ++id) {
    const int32_t buffer = model_.parameters[id].buffer;
    const int32_t array =
        declared.evaluates ? layout_.evaluated_weights(buffer) : layout_.find(ArrayRole::kParameters, buffer);
    prologue.parameters.push_back(parameter(input_value(program, static_cast<size_t>(array)), id).id);
  }
  for (nn::BufferId id = 0; id < std::ssize(model_.parameters.model_buffers()); ++id) {
    const int32_t array = declared.evaluates ? layout_.evaluated_buffer(id) : layout_.find(ArrayRole::kBuffer, 0, id);
    prologue.buffers.push_back(input_value(program, static_cast<size_t>(array)).id);
  }
  return prologue;
}

StepFrame StepBuilder::begin(Program& program, const ProgramInputs& declared) const {
  const Prologue& begun = prologue(declared);
  const bool has_batch = declared.batch.has_value();
  program = begun.program;
  StepFrame frame;
  size_t input = 0;
  frame.arrays.reserve(layout_.arrays().size());
  while (input < layout_.arrays().size()) frame.arrays.push_back(input_value(program, input++));
  if (has_batch)
    for (const data::SampleInput& of_model : inputs_)
      frame.model_inputs.push_back({of_model.name, input_value(program, input++)});
  for (size_t i = has_batch ? kLabels : kDrawKey; i < kBatchInputCount; ++i)
    frame.batch_inputs[i] = input_value(program, input++);
  frame.parameters.reserve(begun.parameters.size());
  for (const ValueId id : begun.parameters) frame.parameters.push_back({&program, id});
  for (const ValueId id : begun.buffers) frame.buffers.push_back({&program, id});
  return frame;
}

Program StepBuilder::begin_reduction(const Shard& shard, SumSource source) const {
  Program program;
  for (const DeviceArray& array : layout_.arrays())
    program.input(InputKind::kState, array.name, type_in_reduction(array, shard, source));
  for (const DeviceArray& array : layout_.arrays())
    for (int rank = 0; has_rows(source) && rank < shard.size() && array.is_read_by_all(); ++rank)
      if (rank != shard.rank())
        program.input(InputKind::kState, fmt::format("{} of rank {}", array.name, rank),
                      type_in_reduction(array, shard, source));
  declare_batch_inputs(program, std::nullopt, /*is_mixed=*/false);
  declare_scalars(program);
  return program;
}

Value StepBuilder::parameter(Value buffer, nn::ParameterId id) const {
  const nn::Parameter& parameter = model_.parameters[id];
  return ops::reshape(ops::slice(buffer, 0, parameter.offset, parameter.offset + parameter.elements()),
                      parameter.shape);
}

namespace {

// A device whose float type is bf16 needs no casts.
nn::Autocast autocast_of(const schema::Recipe& recipe) {
  return {rounds_to_bf16(recipe) ? DType::kF32 : dtype_of(recipe.mixed_precision)};
}

}  // namespace

bool StepBuilder::exchanges_in_forward() const {
  return model_.parameters.exchanges_in_forward() && recipe_.num_processes > 1;
}

std::optional<nn::CountedSamples> StepBuilder::counted_in(const data::Batch& batch) const {
  if (!model_.parameters.moves_buffers() || batch.repeats == 0) return std::nullopt;
  return nn::CountedSamples{.own = batch.real(), .all = batch.samples};
}

nn::ForwardContext StepBuilder::forward_of(Program& program, StepFrame& frame, bool training, nn::HostValues& host,
                                           const std::optional<nn::CountedSamples>& counted) const {
  host.bakes = !device_rules(recipe_).traces_graphs || scalar_rules_of(recipe_).bakes;
  return {.program = program,
          .parameters = frame.parameters,
          .buffers = frame.buffers,
          .inputs = frame.model_inputs,
          .mixed = autocast_of(recipe_),
          .autocast = autocast_of(recipe_),
          .training = training,
          .dropout_key = frame.batch_inputs[kRandomKey],
          .sample_ids = frame.batch_inputs[kSampleIds],
          .draw_key = frame.batch_inputs[kDrawKey],
          .counted = training ? counted : std::nullopt,
          .counted_mask = counted ? frame.batch_inputs[kMask] : Value(),
          .ranks = recipe_.num_processes,
          .host = &host,
          .remat = training && recipe_.model.remat == schema::Remat::kBlock};
}

StepInputs StepBuilder::inputs_of(nn::ForwardContext& forward, const StepFrame& frame) const {
  const auto& batch = frame.batch_inputs;
  return {.forward = forward,
          .model = model_.module,
          .features = frame.features(),
          .labels = batch[kLabels],
          .mask = batch[kMask],
          .sample_ids = batch[kSampleIds],
          .read = nullptr,
          .outputs = outputs_of(batch[kLabels])};
}

StepBuilder::Recorded StepBuilder::record(data::BatchShape batch, bool training, const Read& read,
                                          const std::optional<nn::CountedSamples>& counted) const {
  Recorded recorded;
  record_into(recorded, batch, training, read, counted);
  return recorded;
}

void StepBuilder::record_into(Recorded& recorded, data::BatchShape batch, bool training, const Read& read,
                              const std::optional<nn::CountedSamples>& counted) const {
  Program& program = recorded.program;
  StepFrame frame = begin(program, {.batch = batch, .scalars = true, .evaluates = !training, .training = training});
  recorded.outputs = recorded.targets = recorded.plain_losses = recorded.plain_weights = backends::kNoValue;
  recorded.loss_shape = 0;
  recorded.own_loss = false;
  recorded.metrics.clear();
  recorded.parameters.clear();
  recorded.buffers.clear();
  recorded.host.clear();
  for (const Value parameter : frame.parameters) recorded.parameters.push_back(parameter.id);
  nn::ForwardContext forward = forward_of(program, frame, training, recorded.host, counted);
  StepInputs step = inputs_of(forward, frame);
  if (!training && pads_evaluations()) forward.mask = step.mask;
  step.read = [&](Value value) { return read(recorded, value.id); };
  record_losses(recorded, step, training);
  for (const Value buffer : frame.buffers) recorded.buffers.push_back(buffer.id);
  recorded.random_tensors = forward.random_tensors;
}

namespace {

// A loss of the whole batch counts once.
Value counted_by(Value losses, Value mask) {
  return losses.shape().rank() == 0 ? ops::full_like(losses, 1.0) : mask;
}

void add_metrics(StepBuilder::Recorded& recorded, std::vector<StepMetric> metrics) {
  for (StepMetric& metric : metrics)
    recorded.metrics.push_back({std::move(metric.name), metric.sum.id, metric.weight.id});
}

}  // namespace

void StepBuilder::record_losses(Recorded& recorded, StepInputs& inputs, bool training) const {
  SampleLosses losses;
  Value labels = inputs.labels;
  if (training && has(hooks_, HookEntry::kTrainingStep)) {
    StepLosses step = hooks_->training_step(inputs);
    losses = {step.losses, step.weights};
    recorded.loss_shape = step.loss_shape;
    add_metrics(recorded, std::move(step.metrics));
  } else if (!training && has(hooks_, HookEntry::kEvaluationStep)) {
    StepPredictions step = hooks_->evaluation_step(inputs);
    recorded.outputs = step.predictions.id;
    recorded.targets = step.targets.id;
    RUN_ASSERT(step.predictions.shape() == inputs.outputs);
    if (step.targets) labels = step.targets;
    recorded.own_loss = step.losses.program != nullptr;
    losses = step.losses ? SampleLosses{step.losses, step.weights} : losses_of(loss_, step.predictions, labels);
    add_metrics(recorded, std::move(step.metrics));
  } else {
    const Value outputs = nn::Autocast::raise(model_.module->forward(inputs.forward, inputs.features));
    check_outputs(outputs, inputs.outputs);
    recorded.outputs = outputs.id;
    losses = losses_of(loss_, outputs, labels);
  }
  recorded.losses = losses.losses.id;
  recorded.weights = losses.weights.id;
  recorded.counted = counted_by(losses.losses, inputs.mask).id;
  if (training || !evaluations_read_plain_losses()) return;
  const SampleLosses plain = losses_of(loss_.plain(), {inputs.labels.program, recorded.outputs}, labels);
  recorded.plain_losses = plain.losses.id;
  recorded.plain_weights = plain.weights.id;
}

Shape StepBuilder::outputs_of(Value labels) const {
  const int64_t batch = labels ? labels.shape()[0] : 0;
  return encoding_.has_token_labels() ? Shape{batch, labels ? labels.shape()[1] : 0, encoding_.outputs}
                                      : Shape{batch, encoding_.outputs};
}

// A hook's model may return outputs of any shape.
void StepBuilder::check_outputs(Value outputs, const Shape& expected) const {
  if (outputs.shape() == expected) return;
  const std::string what =
      encoding_.predicts_tokens()
          ? fmt::format("is text of {} different tokens: expected {} f32, logits of the {} token for each token",
                        encoding_.outputs, expected.to_string(), encoding_.masking ? "original" : "next")
          : fmt::format("has {} {}: expected {} f32", encoding_.outputs,
                        encoding_.label_kind == data::LabelKind::kClass ? "classes" : "targets", expected.to_string());
  Error error(ErrorKind::kRecipe,
              fmt::format("the model returns {}, but the data {}", outputs.type().to_string(), what),
              outputs.program->mark_of(outputs.id));
  throw error.locate(model_.module->made_at());
}

SampleLosses StepBuilder::losses_of(const LossSpec& spec, Value outputs, Value labels) const {
  if (encoding_.has_token_labels()) return losses_of_tokens(spec, outputs, labels);
  return sample_losses(spec, outputs, labels);
}

// Each token counts like a sample: the loss of a text sample is the sum over its tokens, and so is its weight.
SampleLosses StepBuilder::losses_of_tokens(const LossSpec& spec, Value outputs, Value labels) const {
  const int64_t batch = labels.shape()[0], length = labels.shape()[1];
  const SampleLosses tokens = sample_losses(spec, ops::reshape(outputs, Shape{batch * length, encoding_.outputs}),
                                            ops::reshape(labels, Shape{batch * length}));
  const auto of_samples = [&](Value values) {
    const int64_t tokens_axis[] = {1};
    return ops::sum(ops::reshape(values, Shape{batch, length}), tokens_axis);
  };
  return {of_samples(tokens.losses), of_samples(tokens.weights)};
}

std::vector<backends::ValueId> StepBuilder::Recorded::results() const {
  std::vector<backends::ValueId> all{outputs, targets, losses, weights, plain_losses, plain_weights, counted};
  for (const Metric& metric : metrics) all.insert(all.end(), {metric.sum, metric.weight});
  all.insert(all.end(), buffers.begin(), buffers.end());
  std::erase(all, backends::kNoValue);
  return all;
}

void StepBuilder::Recorded::output_metrics(Program& to) const {
  for (const Metric& metric : metrics) {
    to.output(metric.name, metric.sum);
    to.output(metric.name + " weight", metric.weight);
  }
}

namespace {

bool depends_on(const Program& program, ValueId value, ValueId on) {
  return backends::needed_by(program, std::span(&value, 1))[static_cast<size_t>(on)] != 0;
}

}  // namespace

bool StepBuilder::evaluations_read_plain_losses() const {
  if (encoding_.label_kind != data::LabelKind::kClass) return !loss_.is_plain();
  const auto is_perplexity = [](const schema::Metric& metric) { return metric.name == "perplexity"; };
  return !loss_.is_plain() ||
         (has(hooks_, HookEntry::kEvaluationStep) && std::ranges::any_of(recipe_.eval.metrics, is_perplexity));
}

bool StepBuilder::pads_evaluations() const {
  const bool by_default = recipe_.backend == schema::Backend::kTpu && !has(hooks_, HookEntry::kEvaluationStep);
  return recipe_.eval.pad_last.value_or(by_default);
}

bool StepBuilder::evaluations_read_outputs() const {
  return encoding_.label_kind != data::LabelKind::kClass || has(hooks_, HookEntry::kMetrics);
}

Program StepBuilder::forward(Recorded recorded, bool labelled) const {
  const ValueId labels = recorded.program.inputs()[first_batch_input() + position_of(kLabels)].value;
  if (!labelled && depends_on(recorded.program, recorded.outputs, labels))
    throw Error(ErrorKind::kRun,
                "the predictions of evaluation_step depend on batch.labels, but the data has no labels",
                hooks_->line_of(HookEntry::kEvaluationStep));
  Program& program = recorded.program;
  if (!labelled) {
    program.output("outputs", recorded.outputs);
    return std::move(program);
  }
  const bool has_own = recorded.targets != backends::kNoValue;
  program.output("losses", recorded.losses);
  program.output("weights", recorded.weights);
  if (evaluations_read_plain_losses()) {
    program.output("plain losses", recorded.plain_losses);
    program.output("plain weights", recorded.plain_weights);
  }
  if (encoding_.label_kind == data::LabelKind::kClass)
    program.output("label ranks",
                   ops::label_rank({&program, recorded.outputs}, {&program, has_own ? recorded.targets : labels}).id);
  if (evaluations_read_outputs()) program.output("outputs", recorded.outputs);
  if (has_own) program.output("targets", recorded.targets);
  recorded.output_metrics(program);
  return std::move(program);
}

Program StepBuilder::evaluation_graph(const Recorded& recorded, bool first) const {
  Program graph = recorded.program;
  const auto value = [&graph](ValueId id) { return Value{&graph, id}; };
  const Value counted = value(recorded.counted);
  Value sums =
      loss_and_weight(counted_sum(value(recorded.losses), counted), counted_sum(value(recorded.weights), counted));
  if (!first) sums = ops::add({&graph, graph.input(InputKind::kState, "evaluation sum", sums.type())}, sums);
  graph.output("evaluation sum", sums.id);
  recorded.output_metrics(graph);
  return graph;
}

}  // namespace runner::train
