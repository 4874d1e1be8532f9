#include "runner/train/step/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backends/runtime/debug.h"
#include "backends/runtime/spans.h"
#include "backends/tensor/float16.h"
#include "runner/optim/traced_scalars.h"
#include "runner/train/replicas/reduction.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/hook_agreement.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/parameter_use.h"
#include "runner/train/step/power_sgd.h"
#include "runner/train/step/step_completion.h"
#include "runner/train/step/tpu_rules.h"
#include "schema/error.h"
#include "schema/large_array.h"

namespace runner::train {
namespace {

nn::Model make_model(const schema::Recipe& recipe, const data::Encoding& encoding, Hooks* hooks) {
  check_agreement(recipe, hooks);
  const bool of_hook = has(hooks, HookEntry::kModel);
  RUN_CHECK(of_hook || encoding.sequence == 0, ErrorKind::kRecipe,
            "the models of the recipe take numbers, and data.train is text, whose samples are tokens; write a function "
            "model with nn.Embedding in the hook");
  RUN_CHECK(!has(hooks, HookEntry::kTransform) || encoding.sequence == 0, ErrorKind::kRecipe,
            "`transform` of a hook changes numbers, and data.train is text; remove it");
  return of_hook ? hooks->model(encoding) : nn::build_model(recipe.model, encoding.feature_shape, encoding.outputs);
}

// Between the batches of a window, or the parts of a batch.
bool keeps_gradients(const schema::Recipe& recipe, const backends::Collectives* ranks, const Hooks* hooks) {
  return recipe.gradient_accumulation_steps > 1 || recipe.train.auto_batch_size || ranks != nullptr || hooks != nullptr;
}

bool compares_graphs(const schema::Recipe& recipe, const backends::Collectives* ranks, const Hooks* hooks) {
  return ranks != nullptr && hooks != nullptr && device_rules(recipe).replicas_run_one_graph;
}

}  // namespace

Trainer::Trainer(const schema::Recipe& recipe, const data::Encoding& encoding, backends::Device& device, Hooks* hooks,
                 backends::Collectives* ranks)
    : recipe_(recipe),
      encoding_(encoding),
      device_(device),
      model_(make_model(recipe, encoding, hooks)),
      hooks_(hooks),
      ranks_(ranks),
      optimizers_(make_optimizers(recipe, encoding, hooks, model_)),
      layout_(model_.parameters, optimizers_, keeps_gradients(recipe, ranks, hooks), first_scale(recipe), recipe.comm),
      builder_(recipe, model_, optimizers_, layout_, encoding, hooks),
      arrays_(builder_, device, ranks, !steps_alone() && !has(hooks, HookEntry::kTrain)),
      clock_(layout_.has(Role::kClock) ? std::make_optional<UpdateClock>(arrays_, counters, optimizers_)
                                       : std::nullopt),
      marks_(recipe, device),
      executor_(device, ranks, counters),
      arguments_({.builder = builder_,
                  .encoding = encoding,
                  .device = device,
                  .arrays = arrays_,
                  .counters = counters,
                  .clock = clock(),
                  .hooks = hooks,
                  .hook_seed = hook_seed(recipe, ranks),
                  .exchange = executor_.exchange()}),
      traced_graphs_(compares_graphs(recipe, ranks, hooks) ? std::make_optional<TracedGraphs>(scalar_rules_of(recipe))
                                                           : std::nullopt),
      segments_(builder_, device, executor_, arguments_, clock(), traced_graphs_ ? &*traced_graphs_ : nullptr),
      pending_(recipe, device, optimizers_, counters, metrics_, clock_.has_value()),
      accumulation_(recipe.gradient_accumulation_steps) {}

void Trainer::allocate() {
  executor_.set_memory(arrays_.memory_left());
  arrays_.allocate();
}

Trainer::~Trainer() {
  const PlanUse use = plan_use();
  if (backends::debug_level() >= backends::kDebugPlans)
    backends::debug_print(fmt::format("-- plan cache: {} hits, {} misses, {} collisions; {} steps held their plan\n",
                                      use.cache.hits, use.cache.misses, use.cache.collisions, use.replayed));
}

SharedStep Trainer::step_of(const StepKind& kind, const data::Batch* batch) {
  if (builder_.varies(kind.training) && !replays(kind.training)) return make_step(kind, batch);
  for (HeldStep& held : held_) {
    if (held.kind != kind) continue;
    ++replayed_;
    if (held.trace) use_trace(held, batch);
    return held.step;
  }
  held_.push_back({kind, make_step(kind, batch)});
  if (replays(kind.training)) keep_trace(held_.back());
  return held_.back().step;
}

void Trainer::keep_trace(HeldStep& held) {
  held.trace = KeptTrace{*recorded_, hooks_->has_random_tensors()};
}

void Trainer::use_trace(HeldStep& held, const data::Batch* batch) {
  const StepKind& kind = held.kind;
  if (held.trace->is_checked()) {
    begin_recording();
    builder_.record_into(*recorded_, kind.shape.batch, kind.training, reader(batch, kind.training));
    check_same_trace(held.trace->recorded, *recorded_, kind.training ? "training_step" : "evaluation_step");
  } else {
    recorded_ = &held.trace->recorded;
    if (held.trace->has_random_tensors) hooks_->draw_again();
  }
  if (!traced_graphs_) return;
  const std::shared_ptr<const backends::Program> held_for_good(std::shared_ptr<void>(), &held.trace->recorded.program);
  traced_graphs_->add(kind.shape.batch, held_for_good, recorded_->results(), recorded_->host.traced);
}

// What the device reads of a recording stays until it is done.
void Trainer::begin_recording() {
  device_.note(backends::HostEvent::kRecording);
  recorded_ = &recordings_[pending_.reads(recordings_[0])];
}

BatchPlace Trainer::place_of(const data::Batch& batch, bool training) const {
  if (training) return {BatchPlace::Of::kTraining, counters.batches, batch.position.epoch};
  return {BatchPlace::Of::kEvaluation, batch.position.step + 1};
}

StepBuilder::Read Trainer::reader(const data::Batch* batch, bool training) {
  return [this, batch, training](const StepBuilder::Recorded& recorded, backends::ValueId value) {
    RUN_CHECK(batch != nullptr, ErrorKind::kRun,
              "item: the first step is being compiled, and there is no batch yet: read values in a later step");
    const backends::Arguments arguments = this->arguments(*batch, &recorded);
    return in_batch(place_of(*batch, training),
                    [&] { return executor_.read_value(recorded.program, value, arguments); });
  };
}

void Trainer::wait_for_batch() {
  settle();
  pending_.check();
}

// What is under way reads the same keys, and leaves its outputs where others come.
backends::Arguments Trainer::arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                                       StepArguments::Traced traced,
                                       std::span<const backends::TracedScalar> rule_numbers) {
  wait_for_batch();
  return arguments_.of_step(batch, recorded, traced, rule_numbers);
}

SharedStep Trainer::make_step(const StepKind& kind, const data::Batch* batch) {
  begin_recording();
  {
    const backends::ScopedSpan span(backends::SpanKind::kCompile, "record");
    builder_.record_into(*recorded_, kind.shape.batch, kind.training, reader(batch, kind.training));
  }
  backends::StepSpecification step = kind.training
                                         ? builder_.specification(*recorded_, kind.shape)
                                         : builder_.forward_specification(*recorded_, kind.labelled, kind.shape.first);
  // The larger the batch that a message has room for, the more elements it has.
  step.insert(step.end(), {kind.closes_window, kind.padded, kind.message != nullptr ? kind.message->elements : 0});
  const SharedStep made = executor_.cache().find_or_make(recorded_->program, step, [&] {
    return kind.training ? compile_training_step(kind) : compile_forward_step(kind);
  });
  if (traced_graphs_)
    traced_graphs_->add(kind.shape.batch, executor_.cache().newest_recorded(), recorded_->results(),
                        recorded_->host.traced);
  return made;
}

void Trainer::compare_graphs() {
  if (traced_graphs_) traced_graphs_->compare(*ranks_, {"traced graphs", counters.windows});
}

SharedStep Trainer::compile_training_step(const StepKind& kind) {
  const StepBuilder::Completed completed =
      builder_.complete(*recorded_, kind.shape, kind.message != nullptr ? *kind.message : MessageLayout());
  note_unused(unused_parameters(completed.reached, model_.parameters));
  backends::Program program = completed.program;
  arrays_.declare_rounded_weights(program);
  if (!device_.keeps_graphs()) return compiled_step(device_.compile(program));
  const bool is_graph = !kind.closes_window && kind.padded == kind.shape.batch;
  const StepBuilder::Completed graph =
      is_graph ? completed : step_graph(builder_, recorded_as_counted(kind), kind.shape, kind.closes_window);
  return compiled_step(device_.compile_graph(program, graph.program), graph.numbers);
}

SharedStep Trainer::compile_forward_step(const StepKind& kind) {
  const backends::Program forward = builder_.forward(*recorded_, kind.labelled);
  if (!device_.keeps_graphs()) return compiled_step(device_.compile(forward));
  const StepBuilder::Recorded counted = recorded_as_counted(kind);
  return compiled_step(device_.compile_graph(forward, kind.labelled
                                                          ? builder_.evaluation_graph(counted, kind.shape.first)
                                                          : builder_.forward(counted, /*labelled=*/false)));
}

StepBuilder::Recorded Trainer::recorded_as_counted(const StepKind& kind) const {
  return kind.padded == kind.shape.batch ? *recorded_ : builder_.record(kind.padded, kind.training);
}

void Trainer::note_unused(const std::string& names) {
  if (names.empty()) return;
  if (recipe_.comm.unused == schema::Unused::kError)
    fail(ErrorKind::kRun,
         "the loss does not depend on {}, and comm.unused is error; use the parameters, or freeze them (model.freeze)",
         names);
  if (unused_.empty()) unused_ = names;
}

SharedStep Trainer::training_step(const StepShape& shape, const data::Batch* batch, bool closes_window) {
  const MessageLayout* const message = batch != nullptr ? message_ : this->message(shape.batch);
  return step_of({.training = true,
                  .labelled = true,
                  .shape = shape,
                  .closes_window = closes_window && device_.keeps_graphs(),
                  .padded = padded(shape.batch, batch, /*training=*/true),
                  .message = closes_window ? message : nullptr},
                 batch);
}

// A hook computes with what it is given.
int64_t Trainer::padded(int64_t size, const data::Batch* batch, bool training) const {
  const bool pads = batch != nullptr && device_.keeps_graphs() && !builder_.varies(training);
  return pads ? std::max(size, batch->largest) : size;
}

// How many batches a window has changes nothing in a step but the loss scale.
StepShape Trainer::shape_of(int64_t batch, bool first, bool last) const {
  return {batch, first, last, first_scale(recipe_) ? accumulation_ : 1};
}

// Devices that keep no account of graphs need not know where an evaluation begins.
SharedStep Trainer::forward_step(const data::Batch& batch, bool labelled, bool first) {
  arguments_.set_any_rates();
  first |= !device_.keeps_graphs();
  return step_of({.training = false,
                  .labelled = labelled,
                  .shape = {.batch = batch.size, .first = first},
                  .padded = padded(batch.size, &batch, /*training=*/false)},
                 &batch);
}

std::optional<double> Trainer::loss_scale() {
  if (!first_scale(recipe_)) return std::nullopt;
  float scale = 0;
  arrays_.read(layout_.find(Role::kScaler, 0, kScale), 0, std::as_writable_bytes(std::span(&scale, 1)));
  return scale;
}

MetricSums Trainer::take_metrics() {
  settle();
  const MetricSums mine = std::exchange(metrics_.ended, {});
  return is_local() && builder_.varies(true) ? merged(mine, *ranks_, executor_.site("metrics")) : mine;
}

// What is in no train/loss point yet is with rank 0 alone.
void Trainer::average() {
  const backends::ScopedSpan span(backends::SpanKind::kOptimizer, "average weights");
  note_state_use();
  for (size_t i = 0; i < layout_.arrays().size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!arrays_.is_of_parameters(array)) continue;
    std::vector<std::byte> bytes = arrays_.read(static_cast<int32_t>(i));
    ranks_->all_reduce(array.type, bytes, backends::Reduction::kSum, executor_.site("weights"));
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value /= static_cast<float>(ranks_->size());
    arrays_.write(static_cast<int32_t>(i), bytes);
  }
  const std::array<double, 2> logged = logged_sums_of_all();
  arrays_.write(layout_.find(Role::kSum, 0, kLoggedSum), std::as_bytes(std::span(logged)));
  MetricSums all = take_metrics();
  if (ranks_->rank() == 0) metrics_.ended = std::move(all);
}

std::array<double, 2> Trainer::logged_sums_of_all() {
  std::array<double, 2> sums = arrays_.take_logged_sums();
  if (is_local())
    ranks_->all_reduce({backends::DType::kF64, backends::Shape{2}}, std::as_writable_bytes(std::span(sums)),
                       backends::Reduction::kSum, executor_.site("the loss"));
  return sums;
}

double Trainer::take_logged_loss() {
  const auto [loss, weight] = logged_sums_of_all();
  return weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss / weight;
}

SharedStep Trainer::run_forward(const data::Batch& batch, bool labelled, bool first) {
  SharedStep step = forward_step(batch, labelled, first);
  const backends::Arguments arguments = this->arguments(batch, recording_of_step(false));
  BatchPlace place = place_of(batch, /*training=*/false);
  if (!labelled) place.of = BatchPlace::Of::kPrediction;
  in_batch(place, [&] { executor_.execute("forward", *step, arguments); });
  return step;
}

void Trainer::evaluate(const data::Batch& batch, bool first, Evaluated& result) {
  const SharedStep step = run_forward(batch, /*labelled=*/true, first);
  const auto size = static_cast<size_t>(batch.size), labels = static_cast<size_t>(encoding_.label_width()),
             width = static_cast<size_t>(encoding_.outputs);
  const auto read = [&](int output, auto& values, size_t count) {
    values.resize(count);
    device_.read_output(*step->executable, output, std::as_writable_bytes(std::span(values)));
  };
  read(kOutputs, result.outputs, size * labels * width);
  read(kLosses, result.losses, size);
  read(kWeights, result.weights, size);
  const bool own_targets = builder_.varies(false) && recorded_->targets != backends::kNoValue;
  if (own_targets && encoding_.label_kind == data::LabelKind::kClass) {
    read(kTargets, result.classes, size * labels);
  } else if (own_targets) {
    read(kTargets, result.targets, size * width);
  } else {
    result.classes.assign(batch.classes.begin(), batch.classes.end());
    result.targets.assign(batch.targets.begin(), batch.targets.end());
  }
  result.metrics.clear();
  if (builder_.varies(false)) add_metrics(device_, *step, *recorded_, kTargets + own_targets, result.metrics);
}

void Trainer::predict(const data::Batch& batch, std::span<float> outputs) {
  const SharedStep step = run_forward(batch, /*labelled=*/false, /*first=*/true);
  device_.read_output(*step->executable, kOutputs, std::as_writable_bytes(outputs));
}

}  // namespace runner::train
