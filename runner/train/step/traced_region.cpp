#include "runner/train/step/traced_region.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "runner/optim/traced_scalars.h"
#include "runner/train/step/clock_values.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/power_sgd.h"
#include "schema/base/error.h"

namespace runner::train {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using backends::ValueId;

TracedRegion::TracedRegion(const StepBuilder& builder, RegionOptions options)
    : builder_(builder),
      options_(std::move(options)),
      frame_(builder.begin(program_, {.batch = options_.batch, .training = options_.training})),
      step_(builder, program_, frame_.arrays),
      unreduced_(step_.gradients.size()),
      reached_(options_.reached),
      forward_(builder.forward_of(program_, frame_, options_.training, host_, options_.counted)),
      inputs_(builder.inputs_of(forward_, frame_)) {
  if (options_.padded) forward_.mask = inputs_.mask;
  if (options_.voided) step_.finite = {&program_, program_.constant(0, {DType::kBool, {}})};
  if (options_.losses) losses_ = step_.arrays.get(ArrayRole::kSum, 0, kStepSum);
  for (const Value parameter : frame_.parameters) first_parameters_.push_back(parameter.id);
  reached_.resize(frame_.parameters.size());
  for (size_t b = 0; b < step_.gradients.size(); ++b) {
    const GradientState held = options_.gradients[b];
    if (held != GradientState::kNothing) {
      step_.gradients[b] = step_.arrays.get(ArrayRole::kGradients, static_cast<int32_t>(b));
      if (skips_unused(step_.arrays))
        step_.reached[b] = step_.arrays.get(ArrayRole::kUse, static_cast<int32_t>(b), kReached);
    }
    unreduced_[b] = held == GradientState::kLocalSum;
  }
}

template <class Change>
void TracedRegion::change_gradients(std::optional<int32_t> optimizer, const Change& change) {
  for (const int32_t b : builder_.flat_buffers_of(optimizer))
    if (Value& gradient = step_.gradients[static_cast<size_t>(b)]) gradient = change(gradient);
}

Value TracedRegion::scalar(std::string name, double value) {
  host_.scalars.push_back(value);
  return {&program_, program_.input(backends::InputKind::kScalar, std::move(name), {DType::kF32, {}})};
}

// Assigns the scalars traced since index `first` to the origin of `node`.
void TracedRegion::trace_from(size_t first, Value node) {
  for (size_t i = first; i < host_.traced.size(); ++i) host_.traced[i].origin = program_.node(node.id).origin;
}

Value TracedRegion::give(HostTensor tensor) {
  host_.given.push_back(std::move(tensor.bytes));
  return {&program_, program_.input(backends::InputKind::kBatch, "given", tensor.type)};
}

// ---- gradients -----------------------------------------------------------------------------------------------------

void TracedRegion::backward(Value loss, double share, double samples, double counted) {
  RUN_CHECK(is_float(loss.dtype()), ErrorKind::kRun, "backward: the loss is {}, expected a tensor of floats",
            loss.type());
  refuse_stale(loss);
  loss = ops::cast(loss, DType::kF32);
  if (const int rank = loss.shape().rank(); rank > 1) {  // mean over the elements of a sample
    std::vector<int64_t> axes;
    for (int axis = 1; axis < rank; ++axis) axes.push_back(axis);
    loss = ops::mean(loss, axes);
  }
  const size_t traced = host_.traced.size();
  optim::trace_accumulation(options_.accumulation, host_.traced);
  const Value factor = scalar("share", share);
  trace_from(traced, factor);
  const Value scale = loss_scale(step_.arrays);
  Value seed = scale ? ops::mul(factor, scale) : factor;
  if (loss.shape().rank() > 0) {
    if (inputs_.mask) loss = ops::mul(loss, inputs_.mask);
    seed = ops::mul(ops::full_like(loss, 1.0), seed);
  }
  const Value own = ops::on_host(loss);
  const Value total = own.shape().rank() > 0 ? ops::sum(own) : ops::mul(own, ops::on_host(scalar("samples", samples)));
  const Value finite = ops::is_finite(ops::detach(total));

  const Derivative added = step_.backward(loss, seed, scale, frame_.parameters);
  for (size_t b = 0; b < step_.gradients.size(); ++b)
    if (added.gradients[b]) add_gradient(b, added.gradients[b]);
  for (size_t id = 0; id < reached_.size(); ++id) reached_[id] = reached_[id] || added.reached[id];

  loss_end_ = total.id + 1;
  losses_finite_ = losses_finite_ ? ops::logical_and(losses_finite_, finite) : finite;
  const Value sums = ops::detach(loss_and_weight(total, ops::on_host(scalar("counted", counted))));
  losses_ = losses_ ? ops::add(losses_, sums) : sums;
}

// If the hook has kept a sum over all ranks, only rank 0 adds to it, so that it counts once.
void TracedRegion::add_gradient(size_t buffer, Value added) {
  Value& gradient = step_.gradients[buffer];
  const bool has_global_sum = gradient && !unreduced_[buffer];
  const bool counts = gradient && (!has_global_sum || options_.rank.value_or(0) == 0);
  const Value held = gradient;
  gradient = counts ? ops::add(gradient, added) : added;
  const bool is_part_of_rank = has_global_sum && options_.rank;  // the reduction adds the parts of the other ranks
  if (counts && !is_part_of_rank) step_.additions.push_back({held.id, added.id, gradient.id});
  if (has_global_sum && counts) of_rank_0_.push_back({gradient.id, added.id});
  unreduced_[buffer] = true;
}

std::string TracedRegion::unused(int32_t optimizer) const {
  const nn::ParameterSet& parameters = builder_.model().parameters;
  std::vector<bool> not_unused(parameters.parameters().size(), true);
  for (const int32_t b : builder_.flat_buffers_of(optimizer)) {
    if (!step_.gradients[static_cast<size_t>(b)]) continue;
    for (const nn::ParameterId id : parameters.in_buffer(b))
      not_unused[static_cast<size_t>(id)] = reached_[static_cast<size_t>(id)];
  }
  return unused_parameters(not_unused, parameters);
}

Value TracedRegion::over_all(Value share, backends::Subject subject, backends::Reduction reduction) {
  if (!options_.rank) return share;
  return ops::all_reduce(share, reduction, subject);
}

Value TracedRegion::sum_of_gradients(int32_t buffer, Value share) {
  if (!options_.rank) return share;
  const schema::CommSpec& comm = builder_.recipe().comm;
  const Value sum =
      rounded_for_communication(over_all(rounded_for_communication(share, comm), backends::Subject::kGradients), comm);
  return is_power_sgd(comm) ? compressed(step_.arrays, builder_, buffer, sum) : sum;
}

void TracedRegion::reduce(std::optional<int32_t> optimizer) {
  for (const int32_t buffer : builder_.flat_buffers_of(optimizer)) {
    const auto b = static_cast<size_t>(buffer);
    if (!step_.gradients[b] || !unreduced_[b]) continue;
    step_.gradients[b] = sum_of_gradients(buffer, step_.gradients[b]);
    Value& reached = step_.reached[b];
    if (reached) reached = over_all(reached, backends::Subject::kGradients, backends::Reduction::kMax);
    unreduced_[b] = false;
  }
  reduce_losses();
}

// A loss that is not finite makes the sum not finite.
void TracedRegion::reduce_losses() {
  if (!losses_) return;
  const Value sums = over_all(losses_, backends::Subject::kLoss);
  const Value finite = ops::is_finite(element(sums, 0));
  step_.finite = step_.finite ? ops::logical_and(step_.finite, finite) : finite;
  step_.add_to_logged(sums);
  losses_ = {};
  reduced_ = true;
}

// The gradient would refer to parameters that have been replaced.
void TracedRegion::refuse_stale(Value loss) const {
  if (outdated_.empty()) return;
  const std::vector<bool> needed = needed_for(program_, loss.id);
  for (const ValueId id : outdated_)
    RUN_CHECK(!needed[static_cast<size_t>(id)], ErrorKind::kRun,
              "backward: the loss was computed before an optimizer changed its parameters; compute it again");
}

Gradients TracedRegion::gradients_of_optimizer(std::optional<int32_t> optimizer) const {
  Gradients found(step_.gradients.size());
  for (const int32_t b : builder_.flat_buffers_of(optimizer))
    found[static_cast<size_t>(b)] = step_.gradients[static_cast<size_t>(b)];
  return found;
}

Value TracedRegion::clip_grad_norm(std::optional<int32_t> optimizer, double limit) {
  const Value squares =
      sum_of_squares(gradients_of_optimizer(optimizer), options_.shards, rounds_to_bf16(builder_.recipe()));
  RUN_CHECK(squares, ErrorKind::kRun, "clip_grad_norm: there are no gradients; call acc:backward first");
  const size_t traced = host_.traced.size();
  optim::trace_clip_grad_norm(limit, host_.traced);
  const Value norm = ops::sqrt(squares), most = scalar("clip_grad_norm", limit);
  trace_from(traced, most);
  const Value factor = clip_factor(norm, most);
  change_gradients(optimizer, [&](Value gradient) { return ops::mul(gradient, factor); });
  return norm;
}

void TracedRegion::clip_grad_value(std::optional<int32_t> optimizer, double limit) {
  const size_t traced = host_.traced.size();
  optim::trace_clip_grad_value(limit, host_.traced);
  const Value least = scalar("-clip_grad_value", -limit), greatest = scalar("clip_grad_value", limit);
  trace_from(traced, greatest);
  change_gradients(optimizer, [&](Value gradient) { return ops::clamp(gradient, least, greatest); });
}

void TracedRegion::zero_grad(int32_t optimizer) {
  for (const int32_t b : builder_.flat_buffers_of(optimizer)) {
    step_.gradients[static_cast<size_t>(b)] = step_.reached[static_cast<size_t>(b)] = {};
    for (const nn::ParameterId id : builder_.model().parameters.in_buffer(b)) reached_[static_cast<size_t>(id)] = false;
  }
}

int64_t TracedRegion::collectives() const {
  for (; scanned_ < program_.size(); ++scanned_) collectives_ += is_collective(program_.node(scanned_).op);
  return collectives_;
}

// ---- updates -------------------------------------------------------------------------------------------------------

void TracedRegion::step(int32_t optimizer, const std::function<ScheduleRates(int64_t ahead)>& rates, int64_t number) {
  const Gradients gradients = gradients_of_optimizer(optimizer);
  RUN_CHECK(std::ranges::any_of(gradients, [](Value gradient) { return static_cast<bool>(gradient); }), ErrorKind::kRun,
            "step: there are no gradients; call acc:backward first");
  step_.decide_applied([&] { return all_finite(gradients); });
  keep_buffers();
  const bool counts = has_clock(step_.arrays);
  while (counts && std::ssize(rates_) <= moves_) rates_.push_back(rates(std::ssize(rates_) - moves_));
  const ScheduleRates now = counts ? rates_.back() : rates(0);
  for (const int32_t b : builder_.flat_buffers_of(optimizer)) {
    // Derivatives do not pass through an update, neither to its gradient nor to the previous parameters.
    if (const Value gradient = gradients[static_cast<size_t>(b)])
      update(b, {.gradient = ops::detach(gradient),
                 .scalars = [&] { return scalar_inputs(builder_.group_of(b), now, number); }});
  }
  if (optimizer == builder_.averaging_optimizer())
    step_.average_buffers([&] {
      const optim::WeightAverage& average = *builder_.group_of(builder_.flat_buffers_of({}).front()).rule.average;
      return scalar("average_rate", optim::average_rate(average, static_cast<double>(number)));
    });
  step_.end_updates(std::array{optimizer});
  if (applied()) steps_.push_back({.optimizer = optimizer, .applied = applied()});
}

std::vector<Value> TracedRegion::scalar_inputs(const OptimizerGroup& group, const ScheduleRates& rates,
                                               int64_t number) {
  const optim::Rule& rule = group.rule;
  const auto names = optim::scalar_names(rule);
  std::vector<double> numbers(names.size());
  optim::step_scalars(rule, rates.of(group), number, numbers);
  const size_t traced = host_.traced.size();
  optim::trace_scalars(rule, rates.of(group), number, host_.traced);
  for (size_t i = traced; i < host_.traced.size(); ++i) builder_.optimizers().mark_owner(host_.traced[i], group);
  std::vector<Value> scalars;
  for (size_t i = 0; i < names.size(); ++i) scalars.push_back(scalar(std::string(names[i]), numbers[i]));
  trace_from(traced, scalars.front());
  if (rule.custom)  // its scalars are exactly the traced ones
    for (size_t i = 0; traced + i < host_.traced.size(); ++i) trace_from(traced + i, scalars[i]);
  return scalars;
}

void TracedRegion::update(int32_t buffer, const StepRecorder::RuleInputs& inputs) {
  step_.update(buffer, inputs);
  const Value updated = ops::detach(step_.arrays.get(ArrayRole::kParameters, buffer));
  for (const nn::ParameterId id : builder_.model().parameters.in_buffer(buffer)) {
    Value& parameter = frame_.parameters[static_cast<size_t>(id)];
    outdated_.push_back(parameter.id);
    parameter = builder_.parameter(updated, id);
  }
}

void TracedRegion::keep_buffers() {
  for (nn::BufferId id = 0; id < std::ssize(frame_.buffers); ++id)
    step_.keep_buffer(id, frame_.buffers[static_cast<size_t>(id)]);
}

void TracedRegion::step_schedule(int64_t steps) {
  RUN_CHECK(!has_clock(step_.arrays) || moves_ + 1 < kClockRows, ErrorKind::kRun,
            "the scheduler steps more than {} times after one update; call acc:mark_step() in between", kClockRows - 1);
  steps_.back().scheduled += steps;
  ++moves_;
  if (has_clock(step_.arrays)) move_schedule(step_.arrays, applied());
}

void TracedRegion::log(std::string name, Value scalar) {
  RUN_CHECK(scalar.shape().elements() == 1, ErrorKind::kRun, "log: {} is {}, expected a number or a tensor of one",
            name, scalar.type());
  requested_.emplace_back(std::move(name), ops::cast(ops::on_host(ops::reshape(scalar, Shape{})), DType::kF64));
}

// ---- the end -------------------------------------------------------------------------------------------------------

int TracedRegion::add_output(std::string name, Value value) {
  program_.output(std::move(name), value.id);
  return static_cast<int>(program_.outputs().size()) - 1;
}

void TracedRegion::finish() {
  if (losses_finite_) own_finite_output_ = add_output("own losses finite", losses_finite_);
  if (reduced_) finite_output_ = add_output("finite", step_.finite);
  for (Step& step : steps_) step.output = add_output("applied", step.applied);
  for (auto& [name, value] : requested_) {
    const int output = add_output(name, value);
    logged_.push_back({std::move(name), output});
  }
  step_.keep_gradients();
  step_.keep_reached();
  keep_buffers();
  if (losses_ && losses_finite_) step_.arrays.set(losses_, ArrayRole::kSum, 0, kStepSum);
  step_.arrays.output(program_);
}

ForwardPass TracedRegion::forward_pass() const {
  return {program_,
          first_parameters_,
          frame_.features().id,
          frame_.batch_inputs[kLabels].id,
          builder_.position_of(kSampleIds),
          loss_end_};
}

std::vector<GradientState> TracedRegion::gradients() const {
  std::vector<GradientState> held;
  for (size_t b = 0; b < step_.gradients.size(); ++b)
    held.push_back(!step_.gradients[b] ? GradientState::kNothing
                   : unreduced_[b]     ? GradientState::kLocalSum
                                       : GradientState::kGlobalSum);
  return held;
}

}  // namespace runner::train
