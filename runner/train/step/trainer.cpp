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

std::vector<backends::Buffer*> pointers_to(const std::vector<std::shared_ptr<backends::Buffer>>& buffers) {
  std::vector<backends::Buffer*> pointers;
  for (const auto& buffer : buffers) pointers.push_back(buffer.get());
  return pointers;
}

// Between the batches of a window, or the parts of a batch.
bool keeps_gradients(const schema::Recipe& recipe, const backends::Collectives* ranks, const Hooks* hooks) {
  return recipe.gradient_accumulation_steps > 1 || recipe.train.auto_batch_size || ranks != nullptr || hooks != nullptr;
}

std::vector<backends::ValueId> roots_of(const backends::Program& program) {
  std::vector<backends::ValueId> roots;
  for (const backends::Output& output : program.outputs()) roots.push_back(output.value);
  return roots;
}

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
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
      weights_(recipe.model.init_from, model_.parameters),
      optimizers_(make_optimizers(recipe, encoding, hooks, model_)),
      layout_(model_.parameters, optimizers_, keeps_gradients(recipe, ranks, hooks), first_scale(recipe), recipe.comm),
      builder_(recipe, model_, optimizers_, layout_, encoding, hooks),
      accumulation_(recipe.gradient_accumulation_steps) {
  if (ranks != nullptr) exchange_.emplace(*ranks);
  if (ranks != nullptr && hooks != nullptr && recipe.backend == schema::Backend::kTpu)
    traced_graphs_.emplace(scalar_rules_of(recipe));
  if (!steps_alone() && !has(hooks, HookEntry::kTrain))
    shares_.emplace(model_.parameters, optimizers_, recipe.comm, ranks->rank(), ranks->size());
  if (shares_ && may_send_messages(recipe, builder_)) messages_.emplace(builder_, device, *ranks);
  if (layout_.has(Role::kClock)) clock_.emplace(*this);
  random_key_[0] = recipe.seed;
  draw_key_[0] = static_cast<int64_t>(hook_seed(recipe, ranks));
  gradients_.resize(model_.parameters.buffers().size());
}

void Trainer::allocate() {
  limit_memory();
  if (shares_) {
    SharedArrays shared = share_arrays(layout_, *shares_, device_, *ranks_);
    arrays_ = std::move(shared.arrays);
    window_arrays_ = std::move(shared.window);
  } else {
    for (const DeviceArray& array : layout_.arrays()) arrays_.push_back(device_.allocate(array.type.bytes()));
  }
  states_ = pointers_to(arrays_);
  window_states_ = pointers_to(window_arrays_);
  if (rounds_weights()) rounded_.emplace(layout_, *shares_, device_, *ranks_, window_states_);
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (array.initial == 0) continue;
    const std::vector<float> filled(static_cast<size_t>(array.type.shape.elements()),
                                    static_cast<float>(array.initial));
    write(static_cast<int32_t>(i), std::as_bytes(std::span(filled)));
  }
  write_initial_weights();
  write_initial_qs();
  if (shares_) ranks_->barrier(site("initial weights"));
}

// What replicas have together, or counts once, is with rank 0.
bool Trainer::writes(const DeviceArray& array) const {
  const bool logged = array.role == Role::kSum && array.index == kLoggedSum;
  if (is_local() && logged) return ranks_->rank() == 0;
  return !shares_ || !is_common(array) || ranks_->rank() == 0;
}

// Replicas that have one copy draw a part of each parameter.
void Trainer::write_initial_weights() {
  const int64_t parts = shares_ ? shares_->size() : 1, part = shares_ ? shares_->rank() : 0;
  LargeArray<float> values;
  for (const nn::Parameter& parameter : model_.parameters.parameters()) {
    const int64_t first = parameter.elements() * part / parts, end = parameter.elements() * (part + 1) / parts;
    values.resize(static_cast<size_t>(end - first));
    if (!weights_.read(parameter, values, first))
      nn::initialise(parameter, static_cast<uint64_t>(recipe_.seed), values, first);
    write_bytes(layout_.find(Role::kParameters, parameter.buffer),
                static_cast<size_t>(parameter.offset + first) * sizeof(float), std::as_bytes(std::span(values)));
  }
}

void Trainer::write_initial_qs() {
  for (const DeviceArray& array : layout_.arrays()) {
    if (array.role != Role::kCompression || array.index != kQs) continue;
    std::vector<float> qs(static_cast<size_t>(array.type.shape.elements()));
    const nn::Parameter drawn{
        .name = "comm/" + array.name, .shape = array.type.shape, .init = {nn::Initialiser::Kind::kNormal, 1.0}};
    nn::initialise(drawn, static_cast<uint64_t>(recipe_.seed), qs);
    write(layout_.find(array.role, array.buffer, array.index), std::as_bytes(std::span(qs)));
  }
}

Trainer::~Trainer() {
  const PlanUse use = plan_use();
  if (backends::debug_level() >= backends::kDebugPlans)
    backends::debug_print(fmt::format("-- plan cache: {} hits, {} misses, {} collisions; {} steps held their plan\n",
                                      use.cache.hits, use.cache.misses, use.cache.collisions, use.replayed));
}

Trainer::Step Trainer::step_of(const StepKind& kind, const data::Batch* batch) {
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
    builder_.record_into(*recorded_, kind.shape.batch, kind.training, reader(batch));
    check_same_trace(held.trace->recorded, *recorded_, kind.training ? "training_step" : "evaluation_step");
  } else {
    recorded_ = &held.trace->recorded;
    if (held.trace->has_random_tensors) hooks_->draw_again();
  }
  if (!traced_graphs_) return;
  const std::shared_ptr<const backends::Program> held_for_good(std::shared_ptr<void>(), &held.trace->recorded.program);
  traced_graphs_->add(kind.shape.batch, held_for_good, recorded_->results(), recorded_->host.traced);
}

Trainer::Step Trainer::make_step(const StepKind& kind, const data::Batch* batch) {
  begin_recording();
  {
    const backends::ScopedSpan span(backends::SpanKind::kCompile, "record");
    builder_.record_into(*recorded_, kind.shape.batch, kind.training, reader(batch));
  }
  backends::StepSpecification step = kind.training
                                         ? builder_.specification(*recorded_, kind.shape)
                                         : builder_.forward_specification(*recorded_, kind.labelled, kind.shape.first);
  step.insert(step.end(), {kind.closes_window, kind.padded, kind.message});
  const Step made = cache_.find_or_make(recorded_->program, step, [&] {
    return kind.training ? compile_training_step(kind) : compile_forward_step(kind);
  });
  if (traced_graphs_)
    traced_graphs_->add(kind.shape.batch, cache_.newest_recorded(), recorded_->results(), recorded_->host.traced);
  return made;
}

void Trainer::compare_graphs() {
  if (traced_graphs_) traced_graphs_->compare(*ranks_, {"traced graphs", counters.windows});
}

std::shared_ptr<backends::Executable> Trainer::compile_training_step(const StepKind& kind) {
  const StepBuilder::Completed completed =
      builder_.complete(*recorded_, kind.shape, kind.message > 0 ? messages_->layout(kind.message) : MessageLayout());
  note_unused(unused_parameters(completed.reached, model_.parameters));
  backends::Program program = completed.program;
  if (rounds_weights()) RoundedWeights::declare(layout_, program);
  if (!device_.keeps_graphs()) return device_.compile(program);
  const bool is_graph = !kind.closes_window && kind.padded == kind.shape.batch;
  const StepBuilder::Completed graph =
      is_graph ? completed : step_graph(builder_, recorded_as_counted(kind), kind.shape, kind.closes_window);
  if (kind.shape.last || kind.closes_window) rule_numbers_ = graph.numbers;
  return device_.compile_graph(program, graph.program);
}

std::shared_ptr<backends::Executable> Trainer::compile_forward_step(const StepKind& kind) {
  const backends::Program forward = builder_.forward(*recorded_, kind.labelled);
  if (!device_.keeps_graphs()) return device_.compile(forward);
  const StepBuilder::Recorded counted = recorded_as_counted(kind);
  return device_.compile_graph(forward, kind.labelled ? builder_.evaluation_graph(counted, kind.shape.first)
                                                      : builder_.forward(counted, /*labelled=*/false));
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

void Trainer::execute(std::string_view name, backends::Executable& step, const backends::Arguments& arguments,
                      backends::SpanKind kind) {
  backends::Arguments awaited = arguments;
  awaited.waits = true;
  device_.wait(submit(name, step, awaited, kind));
}

backends::Ticket Trainer::submit(std::string_view name, backends::Executable& step, backends::Arguments arguments,
                                 backends::SpanKind kind) {
  check_memory(name, step, kind);
  arguments.name = name;
  arguments.span = kind;
  return device_.submit(step, arguments);
}

void Trainer::run_segment(const Segment& segment, const data::Batch* batch) {
  segment_step_ = cache_.find_or_make(segment.program(), segment_specification(),
                                      [&] { return device_.compile_graph(segment.program(), segment.program()); });
  if (traced_graphs_ && segment.meetings() > 0)
    traced_graphs_->add(batch != nullptr ? batch->size : 0, cache_.newest_recorded(), roots_of(segment.program()),
                        segment.host().traced);
  begin_exchange(/*again=*/false);
  execute("segment", *segment_step_, arguments(segment, batch));
}

double Trainer::read_output(const Segment& segment, int output) {
  const backends::Program& program = segment.program();
  const backends::DType dtype = program.type(program.outputs()[static_cast<size_t>(output)].value).dtype;
  std::array<std::byte, 8> value{};
  device_.read_output(*segment_step_, output, std::span(value).first(backends::size_of(dtype)));
  return backends::load_element(dtype, value.data());
}

Trainer::Step Trainer::training_step(const StepShape& shape, const data::Batch* batch, bool closes_window) {
  const int64_t largest = batch != nullptr ? batch->largest : shape.batch;
  return step_of({.training = true,
                  .labelled = true,
                  .shape = shape,
                  .closes_window = closes_window && device_.keeps_graphs(),
                  .padded = padded(shape.batch, batch, /*training=*/true),
                  .message = closes_window ? message_size(largest) : 0},
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
Trainer::Step Trainer::forward_step(const data::Batch& batch, bool labelled, bool first) {
  if (scalars_.empty()) set_scalars({});  // nothing uses them, but every Program has them
  first |= !device_.keeps_graphs();
  return step_of({.training = false,
                  .labelled = labelled,
                  .shape = {.batch = batch.size, .first = first},
                  .padded = padded(batch.size, &batch, /*training=*/false)},
                 &batch);
}

void Trainer::begin_batch(bool training) {
  batches_ += training;
  if (!recipe_.tpu.auto_mark_step) return;
  if (marks_[training].before_next(recipe_.tpu.batches_per_execution)) note_step_mark();
}

// The loader of PyTorch/XLA cuts where it finds the end, and, since 2, behind it.
void Trainer::end_batches(bool training) {
  if (!recipe_.tpu.auto_mark_step) return;
  if (marks_[training].before_next(recipe_.tpu.batches_per_execution)) note_step_mark();
  if (recipe_.tpu.dialect != schema::TpuDialect::kXla17) note_step_mark();
  marks_[training].end();
}

void Trainer::read_metrics(const Step& step, const StepBuilder::Recorded& recorded, int first, MetricSums& sums) {
  for (const StepBuilder::Metric& metric : recorded.metrics) {
    MetricSum read;
    for (double* value : {&read.sum, &read.weight})
      device_.read_output(*step, first++, std::as_writable_bytes(std::span(value, 1)));
    sums[metric.name] += read;
  }
}

// The first of those that StepOutput does not name: `applied` and the factor, where there are such.
int Trainer::outcome_outputs() const {
  return kGradNorm + recipe_.train.clip_grad_norm.has_value();
}

std::optional<double> Trainer::loss_scale() {
  if (!first_scale(recipe_)) return std::nullopt;
  float scale = 0;
  device_.read(*arrays_[static_cast<size_t>(layout_.find(Role::kScaler, 0, kScale))], 0,
               std::as_writable_bytes(std::span(&scale, 1)));
  return scale;
}

MetricSums Trainer::take_metrics() {
  settle();
  const MetricSums mine = std::exchange(metrics_, {});
  return is_local() && builder_.varies(true) ? merged(mine, *ranks_, site("metrics")) : mine;
}

// What is in no train/loss point yet is with rank 0 alone.
void Trainer::average() {
  const backends::ScopedSpan span(backends::SpanKind::kOptimizer, "average weights");
  note_state_use();
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!is_of_parameters(array)) continue;
    std::vector<std::byte> bytes = read(static_cast<int32_t>(i));
    ranks_->all_reduce(array.type, bytes, backends::Reduction::kSum, site("weights"));
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value /= static_cast<float>(ranks_->size());
    write(static_cast<int32_t>(i), bytes);
  }
  std::array<double, 2> logged = take_logged_sums();
  if (ranks_->rank() == 0) write(layout_.find(Role::kSum, 0, kLoggedSum), bytes_of(logged));
  MetricSums all = take_metrics();
  if (ranks_->rank() == 0) metrics_ = std::move(all);
}

void Trainer::begin_exchange(bool again) {
  if (exchange_) exchange_->begin(counters.windows + 1, again);
}

std::optional<NotFinite> Trainer::explain_not_finite(const Segment& segment, const data::Batch* batch) {
  backends::Arguments alone = arguments(segment, batch);
  alone.exchange = nullptr;
  return first_not_finite(device_, segment.forward_pass(), model_.parameters, alone, memory_);
}

int64_t Trainer::updates_of(int32_t optimizer) const {
  const auto found = counters.updates.find(optimizers_.names[static_cast<size_t>(optimizer)]);
  return found == counters.updates.end() ? 0 : found->second;
}

std::array<double, 2> Trainer::take_logged_sums() {
  std::array<double, 2> sums{};
  backends::Buffer& buffer = *arrays_[static_cast<size_t>(layout_.find(Role::kSum, 0, kLoggedSum))];
  device_.read(buffer, 0, std::as_writable_bytes(std::span(sums)));
  forget_logged_loss();
  if (is_local())
    ranks_->all_reduce({backends::DType::kF64, backends::Shape{2}}, std::as_writable_bytes(std::span(sums)),
                       backends::Reduction::kSum, site("the loss"));
  return sums;
}

void Trainer::forget_logged_loss() {
  device_.write(*arrays_[static_cast<size_t>(layout_.find(Role::kSum, 0, kLoggedSum))], 0,
                bytes_of(std::array<double, 2>{}));
}

double Trainer::take_logged_loss() {
  const auto [loss, weight] = take_logged_sums();
  return weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss / weight;
}

void Trainer::evaluate(const data::Batch& batch, bool first, Evaluated& result) {
  const Step step = forward_step(batch, true, first);
  execute("forward", *step, arguments(batch, recording_of_step(false)));
  const auto size = static_cast<size_t>(batch.size), labels = static_cast<size_t>(encoding_.label_width()),
             width = static_cast<size_t>(encoding_.outputs);
  const auto read = [&](int output, auto& values, size_t count) {
    values.resize(count);
    device_.read_output(*step, output, std::as_writable_bytes(std::span(values)));
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
  if (builder_.varies(false)) read_metrics(step, *recorded_, kTargets + own_targets, result.metrics);
}

void Trainer::predict(const data::Batch& batch, std::span<float> outputs) {
  const Step step = forward_step(batch, false);
  execute("forward", *step, arguments(batch, recording_of_step(false)));
  device_.read_output(*step, kOutputs, std::as_writable_bytes(outputs));
}

std::vector<std::byte> Trainer::read(int32_t array) {
  std::vector<std::byte> contents(arrays_[static_cast<size_t>(array)]->bytes());
  read(array, 0, contents);
  return contents;
}

void Trainer::read(int32_t array, size_t offset, std::span<std::byte> target) {
  device_.read(*arrays_[static_cast<size_t>(array)], offset, target);
}

void Trainer::write(int32_t array, std::span<const std::byte> contents) {
  const auto at = static_cast<size_t>(array);
  if (writes(layout_.arrays()[at])) write_bytes(array, 0, contents);
}

void Trainer::write_bytes(int32_t array, size_t offset, std::span<const std::byte> contents) {
  device_.write(*arrays_[static_cast<size_t>(array)], offset, contents);
  if (rounded_) rounded_->write(array, offset, contents);
}

}  // namespace runner::train
