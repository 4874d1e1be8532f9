#include "runner/train/engine/step_completion.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "runner/train/engine/clock_values.h"
#include "runner/train/engine/device_rules.h"
#include "runner/train/engine/gradient_buckets.h"
#include "runner/train/engine/gradients.h"
#include "runner/train/engine/loss_scaler.h"
#include "runner/train/engine/parameter_use.h"
#include "runner/train/engine/power_sgd.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Program;
using backends::Subject;
using backends::TensorType;
using backends::ValueId;

std::vector<Value> array_inputs(Program& program, const DeviceLayout& layout) {
  std::vector<Value> values;
  for (size_t i = 0; i < layout.arrays().size(); ++i) values.push_back(input_value(program, i));
  return values;
}

Value guarded(Value applied, Value now, Value before) {
  return applied ? ops::where(applied, now, before) : now;
}

// A training step under construction.
class StepCompletion {
 public:
  // `program` must declare the arrays of the layout first. Its scalars are the inputs from `first_scalar` on.
  StepCompletion(const StepBuilder& builder, Program program, size_t first_scalar, MessageLayout message = {},
                 SumSource source = SumSource::kRows)
      : builder_(builder),
        source_(source),
        train_(builder.recipe().train),
        parameters_(builder.model().parameters),
        first_scalar_(first_scalar),
        message_(std::move(message)),
        program_(std::move(program)),
        arrays_(builder.layout(), array_inputs(program_, builder.layout())) {}

  StepBuilder::Completed of_batch(const StepBuilder::Recorded& recorded, const StepShape& shape,
                                  bool over_replicas = false) {
    sum_batch(recorded);
    std::vector<bool> reached = differentiate(recorded, shape);
    if (!shape.first) add_window();
    if (over_replicas) reduce_all();
    if (shape.last) scale_gradients();
    recorded.output_metrics(program_);
    shape.last ? update_all() : keep_window();
    arrays_.output(program_);
    return {std::move(program_), std::move(reached), std::move(numbers_)};
  }

  Program of_part(const Shares& shares) {
    add_up_replicas(shares, /*ends_window=*/false);
    if (shares.rank() == 0) {
      program_.output("window sum", sums_.id);
      keep_reached();  // no other rank reads it here
    }
    for (const auto& [buffer, array] : of_rank_0_) {
      const Value sum = gradients_[static_cast<size_t>(buffer)];
      const Value weight = ops::cast(number(sums_, 1), DType::kF32);
      program_.output("gradients of rank 0", (are_means_ ? ops::mul(sum, weight) : sum).id, array);
    }
    arrays_.output(program_);
    return std::move(program_);
  }

  // For a rank that shares nothing: reduces the gradients after a batch that is not the last of its optimizer step.
  Program of_reduction() {
    gradients_.resize(parameters_.buffers().size());
    for (const DeviceArray& array : builder_.layout().arrays())
      if (array.role == Role::kGradients)
        gradients_[static_cast<size_t>(array.buffer)] = arrays_.get(array.role, array.buffer, array.index);
    reduce_gradients();
    keep_gradients();
    arrays_.output(program_);
    return std::move(program_);
  }

  Program of_window(const Shares& shares, bool over_replicas = false) {
    add_up_replicas(shares, /*ends_window=*/true);
    if (over_replicas) reduce_gradients();
    scale_gradients();
    update_all();
    arrays_.output(program_);
    return std::move(program_);
  }

 private:
  Value value(ValueId id) { return {&program_, id}; }

  // Σ mask · loss and Σ mask · weight of this batch.
  void sum_batch(const StepBuilder::Recorded& recorded) {
    const Value counted = value(recorded.counted);
    sums_ =
        loss_and_weight(counted_sum(value(recorded.losses), counted), counted_sum(value(recorded.weights), counted));
  }

  // Computes the gradients of Σ mask · loss, with the mask as seed. After the first micro-batch of an optimizer step,
  // each gradient is added to the accumulated one as soon as it is complete, so that at most one is stored
  // additionally. Returns by ParameterId which parameters have gradients.
  std::vector<bool> differentiate(const StepBuilder::Recorded& recorded, const StepShape& shape) {
    std::vector<Value> parameters;
    for (const ValueId id : recorded.parameters) parameters.push_back(value(id));
    const Value counted = value(recorded.counted), scale = scale_of_batch(counted.shape().elements() * shape.parts);
    const Value seed = scale ? ops::mul(counted, scale) : counted;
    const auto add_to_window = [&](size_t id, Value gradient) {
      return ops::add(gradient_of_window(static_cast<nn::ParameterId>(id)), unscaled(gradient, scale));
    };
    Derivative derivative = derivative_of(value(recorded.losses), seed, parameters, parameters_,
                                          shape.first ? backends::Finish() : add_to_window);
    gradients_ = std::move(derivative.gradients);
    if (shape.first) unscale(gradients_, scale);
    if (message_.elements > 0) send(message_of(derivative, message_));
    if (skips_unused(arrays_)) add_reached(reached_, program_, derivative.reached, parameters_);
    return std::move(derivative.reached);
  }

  Value gradient_of_window(nn::ParameterId id) {
    return builder_.parameter(arrays_.get(Role::kGradients, parameters_[id].buffer), id);
  }

  TensorType message_type() const { return {DType::kF32, backends::Shape{message_.elements}}; }

  // Writes the message instead of the gradient arrays.
  void send(Value message) {
    const auto state = static_cast<int32_t>(program_.inputs().size());
    program_.input(backends::InputKind::kState, "message", message_type());
    program_.output("message", message.id, state);
    std::ranges::fill(gradients_, Value());
  }

  // A scaler multiplies the mean over a micro-batch divided by the number of micro-batches, as in PyTorch. Losses are
  // summed here, so the scale is divided by `parts`.
  Value scale_of_batch(int64_t parts) {
    const Value scale = loss_scale(arrays_);
    return scale ? ops::div(scale, static_cast<double>(parts)) : scale;
  }

  // Computes the left fold over ranks. The arrays of other ranks are inputs after those of the layout. PowerSGD
  // compresses the sum of an optimizer step once.
  void add_up_replicas(const Shares& shares, bool ends_window) {
    const bool all_reduces = source_ == SumSource::kAllReduce, has_rows = !all_reduces_others();
    const bool are_summed = source_ == SumSource::kBuckets || source_ == SumSource::kFoldedRows;
    is_share_ = shares.size() > 1 && !all_reduces;
    if (all_reduces)
      shares_of_norm_ = shares_of_all(parameters_, builder_.optimizers(), builder_.recipe().comm, shares.size());
    gradients_.resize(parameters_.buffers().size());
    std::vector<std::pair<int32_t, std::vector<Value>>> gradients;  // buffer, and its gradients by rank
    size_t next = builder_.layout().arrays().size();
    for (const DeviceArray& array : builder_.layout().arrays()) {
      if (!is_read_by_all(array)) continue;
      const int32_t of_rank_0 = shares.rank() == 0 || !has_rows
                                    ? builder_.layout().find(array.role, array.buffer, array.index)
                                    : static_cast<int32_t>(next);
      std::vector<Value> by_rank;
      for (int rank = 0; rank < shares.size(); ++rank) {
        const bool own = rank == shares.rank();
        if (own) by_rank.push_back(arrays_.get(array.role, array.buffer, array.index));
        if (!own && has_rows) by_rank.push_back(input_value(program_, next++));
      }
      if (array.role == Role::kSum) {
        sums_ = has_rows ? left_fold(by_rank) : ops::all_reduce(by_rank[0], backends::Reduction::kSum, Subject::kLoss);
      } else if (array.role == Role::kUse) {
        reached_.resize(gradients_.size());
        reached_[static_cast<size_t>(array.buffer)] =
            has_rows ? reached_by_any(by_rank)
                     : ops::all_reduce(by_rank[0], backends::Reduction::kMax, Subject::kGradients);
      } else if ((all_reduces || shares.of(array.buffer).count > 0) && message_.elements == 0 && !are_summed) {
        gradients.emplace_back(array.buffer, std::move(by_rank));
        of_rank_0_.emplace_back(array.buffer, of_rank_0);
      }
    }
    const schema::CommSpec& comm = builder_.recipe().comm;
    are_means_ = comm.hook != schema::CommHook::kNone && (ends_window || !is_power_sgd(comm));
    for (auto& [buffer, by_rank] : gradients)
      gradients_[static_cast<size_t>(buffer)] = sum_of_gradients(buffer, by_rank);
    if (message_.elements > 0) add_up_messages(shares);
    if (are_summed) take_sums(shares);
  }

  // Whether the sums of losses and the reached parameters are all-reduced.
  bool all_reduces_others() const { return source_ == SumSource::kFoldedRows || source_ == SumSource::kAllReduce; }

  void take_sums(const Shares& shares) {
    for (int32_t b = 0; b < std::ssize(gradients_); ++b)
      if (const int64_t count = shares.of(b).count; count > 0)
        gradients_[static_cast<size_t>(b)] =
            value(program_.input(backends::InputKind::kState, "sums", {DType::kF32, backends::Shape{count}}));
  }

  void add_up_messages(const Shares& shares) {
    std::vector<Value> by_rank;
    for (int rank = 0; rank < shares.size(); ++rank)
      by_rank.push_back(
          value(program_.input(backends::InputKind::kState, fmt::format("message of rank {}", rank), message_type())));
    for (int32_t b = 0; b < std::ssize(gradients_); ++b)
      if (shares.of(b).count > 0)
        gradients_[static_cast<size_t>(b)] = sum_of_messages(by_rank, message_, parameters_, b, shares.of(b));
  }

  // Rounds each rank's part of the mean, as DDP's hooks do: a sum over samples would soon overflow.
  Value sum_of_gradients(int32_t buffer, std::vector<Value>& by_rank) {
    const auto sum_over_ranks = [&] {
      return source_ == SumSource::kAllReduce
                 ? ops::all_reduce(by_rank[0], backends::Reduction::kSum, Subject::kGradients)
                 : left_fold(by_rank);
    };
    if (!are_means_) return sum_over_ranks();
    const schema::CommSpec& comm = builder_.recipe().comm;
    for (Value& gradient : by_rank) gradient = on_its_way(ops::mul(gradient, mean_factor()), comm);
    const Value sum = on_its_way(sum_over_ranks(), comm);
    return is_power_sgd(comm) ? compressed(arrays_, builder_, buffer, sum) : sum;
  }

  void reduce_all() {
    sums_ = ops::all_reduce(sums_, backends::Reduction::kSum, Subject::kLoss);
    reduce_gradients();
  }

  void reduce_gradients() {
    for (Value& gradient : gradients_)
      if (gradient) gradient = ops::all_reduce(gradient, backends::Reduction::kSum, Subject::kGradients);
  }

  // Norm of all gradients, also if this rank has only a shard of them.
  Value norm_of_sum() {
    Value squares = sum_of_squares(gradients_, shares_of_norm_);
    if (is_share_) {
      if (!squares) squares = ops::full_like(factor_, 0.0);
      squares = ops::all_reduce(squares, backends::Reduction::kSum, Subject::kGradients);
    }
    return ops::sqrt(squares);
  }

  // Gradients accumulate in place even if they are not needed later, so that they take no additional memory. Traced
  // code does not have them after the end of an optimizer step.
  void add_window() {
    if (!device_rules(builder_.recipe()).traces_graphs) keep_gradients();
    sums_ = ops::add(arrays_.get(Role::kSum, 0, kWindowSum), sums_);
    each_reached([&](int32_t b, Value& reached) {
      reached = reached_by_any(std::array{arrays_.get(Role::kUse, b, kReached), reached});
    });
  }

  void keep_gradients() {
    for (size_t b = 0; b < gradients_.size(); ++b)
      if (gradients_[b]) arrays_.set(gradients_[b], Role::kGradients, static_cast<int32_t>(b));
  }

  void keep_window() {
    keep_gradients();
    arrays_.set(sums_, Role::kSum, 0, kWindowSum);
    keep_reached();
  }

  void keep_reached() {
    each_reached([&](int32_t b, Value reached) { arrays_.set(reached, Role::kUse, b, kReached); });
  }

  template <class Visit>
  void each_reached(const Visit& visit) {
    for (size_t b = 0; b < reached_.size(); ++b)
      if (reached_[b]) visit(static_cast<int32_t>(b), reached_[b]);
  }

  // 1 / Σ weight of the optimizer step.
  Value mean_factor() {
    const Value weight = number(sums_, 1), zero = ops::full_like(weight, 0.0);
    return ops::cast(ops::where(ops::eq(weight, zero), zero, ops::div(1.0, weight)), DType::kF32);
  }

  // Computes one factor for all gradients: 1 / Σ weight, times that of torch.nn.utils.clip_grad_norm_.
  void scale_gradients() {
    factor_ = mean_factor();
    if (are_means_) factor_ = ops::full_like(factor_, 1.0);
    finite_ = ops::is_finite(number(sums_, 0));
    const bool scaled = static_cast<bool>(loss_scale(arrays_));
    const bool check_gradients = checks_gradients(builder_.recipe());
    Value norm;
    if (train_.clip_grad_norm || check_gradients) norm = ops::mul(norm_of_sum(), factor_);
    applied_ = check_gradients ? ops::logical_and(finite_, ops::is_finite(norm)) : finite_;
    // With a loss scaler, overflowed gradients skip the update but do not make the step count as not finite.
    if (!scaled) finite_ = applied_;
    program_.output("finite", finite_.id);
    if (train_.clip_grad_norm) {
      program_.output("grad_norm", norm.id);
      factor_ = ops::mul(factor_, clip_factor(norm, ops::full_like(norm, *train_.clip_grad_norm)));
    }
    if (!has_clock(arrays_)) return;
    program_.output("applied", applied_.id);
    program_.output("factor", clock_factor(arrays_).id);
  }

  // Optimizer steps that are not finite do not count in train/loss.
  void update_all() {
    for (size_t b = 0; b < gradients_.size(); ++b)
      if (gradients_[b]) update(static_cast<int32_t>(b), gradients_[b]);
    add_to_sum(arrays_, kLoggedSum, sums_, finite_);
    if (loss_scale(arrays_)) update_scale(arrays_, builder_.recipe().scaler, applied_);
    if (has_clock(arrays_)) count_step();
  }

  void count_step() {
    for (size_t i = 0; i < builder_.optimizers().names.size(); ++i)
      count_update(arrays_, static_cast<int32_t>(i), applied_);
    each_reached([&](int32_t b, Value reached) { count_update_of_each(arrays_, b, reached, applied_); });
    move_schedule(arrays_, applied_);
  }

  void update(int32_t buffer, Value gradient) {
    gradient = ops::mul(gradient, factor_);
    if (const auto limit = train_.clip_grad_value) gradient = ops::clamp(gradient, -*limit, *limit);
    const auto numbers = apply_update(arrays_, builder_.group_of(buffer).rule, buffer, gradient, terms_of(buffer));
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }

  UpdateTerms terms_of(int32_t buffer) {
    if (!has_clock(arrays_)) return {scalar_inputs(buffer), applied_};
    const Value reached = reached_.empty() ? Value() : reached_[static_cast<size_t>(buffer)];
    return clock_terms(arrays_, builder_, buffer, reached, applied_);
  }

  // Scalars of a buffer's group. StepBuilder::begin() declares them last, buffer by buffer.
  std::vector<Value> scalar_inputs(int32_t buffer) {
    const auto count = [&](int32_t b) {
      const int32_t group = parameters_.buffers()[static_cast<size_t>(b)].group;
      return group < 0 ? 0 : optim::scalar_names(builder_.optimizers().rule(group).type).size();
    };
    size_t first = first_scalar_;
    for (int32_t b = 0; b < buffer; ++b) first += count(b);
    std::vector<Value> scalars;
    for (size_t i = 0; i < count(buffer); ++i) scalars.push_back(input_value(program_, first + i));
    return scalars;
  }

  const StepBuilder& builder_;
  const SumSource source_;
  const schema::TrainSpec& train_;
  const nn::ParameterSet& parameters_;
  const size_t first_scalar_;
  const MessageLayout message_;  // empty if gradients are in their arrays
  Program program_;
  ArrayValues arrays_;
  Gradients gradients_;
  ReachedParameters reached_;                           // empty if unused parameters are updated too
  std::vector<std::pair<int32_t, int32_t>> of_rank_0_;  // buffer, and the state with rank 0's gradients
  bool is_share_ = false;                               // gradients_ are only a shard
  std::vector<Shares> shares_of_norm_;                  // in whose order squares are summed; empty: in one sum
  bool are_means_ = false;                              // already divided by Σ weight
  Value sums_;                                          // (2) f64, {Σ loss, Σ weight} of the optimizer step so far
  Value factor_, finite_, applied_;
  std::vector<backends::TracedScalar> numbers_;  // of a hook's update rules
};

// All elements, of which a rank that shares nothing updates all.
Shares whole(const StepBuilder& builder) {
  return {builder.model().parameters, builder.optimizers(), builder.recipe().comm, /*rank=*/0, /*size=*/1};
}

StepCompletion window_completion(const StepBuilder& builder, const Shares& shares, const MessageLayout& message = {},
                                 SumSource source = SumSource::kRows) {
  const bool has_rows = source == SumSource::kRows || source == SumSource::kBuckets;
  Program program = builder.begin_window(shares, has_rows);
  size_t first_scalar = 0;
  while (first_scalar < program.inputs().size() && program.inputs()[first_scalar].kind != backends::InputKind::kScalar)
    ++first_scalar;
  return StepCompletion(builder, std::move(program), first_scalar, message, source);
}

}  // namespace

ArrayValues::ArrayValues(const DeviceLayout& layout, std::vector<Value> values)
    : layout_(layout), values_(std::move(values)) {}

Value ArrayValues::get(Role role, int32_t buffer, int32_t index) const {
  return values_[static_cast<size_t>(layout_.find(role, buffer, index))];
}

void ArrayValues::set(Value now, Role role, int32_t buffer, int32_t index) {
  const int32_t at = layout_.find(role, buffer, index);
  values_[static_cast<size_t>(at)] = now;
  if (std::find(changed_.begin(), changed_.end(), at) == changed_.end()) changed_.push_back(at);
}

void ArrayValues::output(Program& program) const {
  for (const int32_t at : changed_)
    program.output(layout_.arrays()[static_cast<size_t>(at)].name, values_[static_cast<size_t>(at)].id, at);
}

std::vector<backends::TracedScalar> apply_update(ArrayValues& arrays, const optim::Rule& rule, int32_t buffer,
                                                 Value gradient, const UpdateTerms& terms) {
  const Value before = arrays.get(Role::kParameters, buffer);
  std::vector<Value> slots;
  const auto count = static_cast<int32_t>(optim::slots(rule).size());
  for (int32_t s = 0; s < count; ++s) slots.push_back(arrays.get(Role::kSlot, buffer, s));
  optim::Updated now = optim::update(rule, before, gradient, slots, terms.scalars);
  arrays.set(guarded(terms.applied, now.parameters, before), Role::kParameters, buffer);
  for (int32_t s = 0; s < count; ++s) {
    const auto slot = static_cast<size_t>(s);
    arrays.set(guarded(terms.applied, now.slots[slot], slots[slot]), Role::kSlot, buffer, s);
  }
  return std::move(now.numbers);
}

Value counted_sum(Value values, Value counted) {
  return ops::sum(ops::on_host(ops::mul(values, counted)));
}

Value loss_and_weight(Value loss, Value weight) {
  return ops::stack(std::array{ops::cast(loss, DType::kF64), ops::cast(weight, DType::kF64)}, 0);
}

Value number(Value sums, int64_t index) {
  return ops::reshape(ops::slice(sums, 0, index, index + 1), backends::Shape{});
}

void add_to_sum(ArrayValues& arrays, Sum sum, Value addend, Value applied) {
  const Value before = arrays.get(Role::kSum, 0, sum);
  arrays.set(guarded(applied, ops::add(before, addend), before), Role::kSum, 0, sum);
}

MessageLayout message_layout(const StepBuilder& builder, const StepBuilder::Recorded& recorded) {
  const nn::ParameterSet& set = builder.model().parameters;
  Program program = recorded.program;
  std::vector<Value> parameters;
  for (const ValueId id : recorded.parameters) parameters.push_back({&program, id});
  return message_layout(derivative_of({&program, recorded.losses}, {&program, recorded.counted}, parameters, set), set);
}

StepBuilder::Completed complete_step(const StepBuilder& builder, const StepBuilder::Recorded& recorded,
                                     const StepShape& shape, const MessageLayout& message) {
  const size_t first_scalar = builder.first_scalar();
  return StepCompletion(builder, recorded.program, first_scalar, message).of_batch(recorded, shape);
}

StepBuilder::Completed step_graph(const StepBuilder& builder, const StepBuilder::Recorded& recorded, StepShape shape,
                                  bool closes_window) {
  const size_t first_scalar = builder.first_scalar();
  shape.last |= closes_window;
  return StepCompletion(builder, recorded.program, first_scalar).of_batch(recorded, shape, closes_window);
}

Program complete_window(const StepBuilder& builder, const Shares& shares, bool ends_window,
                        const MessageLayout& message, SumSource source) {
  StepCompletion completion =
      window_completion(builder, source == SumSource::kAllReduce ? whole(builder) : shares, message, source);
  return ends_window ? completion.of_window(shares) : completion.of_part(shares);
}

Program window_graph(const StepBuilder& builder, bool ends_window, bool are_summed) {
  const Shares all = whole(builder);
  StepCompletion completion = window_completion(builder, all, {}, are_summed ? SumSource::kBuckets : SumSource::kRows);
  if (ends_window) return completion.of_window(all, /*over_replicas=*/!are_summed);
  const schema::Recipe& recipe = builder.recipe();
  const bool reduces = recipe.sync_each_batch && !may_reduce_in_buckets(recipe);
  return reduces ? completion.of_reduction() : Program();
}

}  // namespace runner::train
