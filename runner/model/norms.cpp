#include "runner/model/norms.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/type_text.h"
#include "runner/model/options_text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;

void check_channels(Value x, std::string_view what) {
  RUN_CHECK(x.shape().rank() >= 2 && is_float(x.dtype()), ErrorKind::kRun,
            "{}: expected a tensor (B, C, …) of floats, got {}", what, x.type());
}

// Statistics of each channel, (C) f32.
struct ChannelStatistics {
  Value mean, variance;  // biased
  Value unbiased;        // variance
  Value count = {};      // (1) f32: values per channel; unset if it is constant
};

int64_t values_per_sample(Value x) {
  return x.shape().elements() / (x.shape()[0] * x.shape()[1]);
}

// (C) as (1, C, 1, …), to be broadcast over x.
Value over_channels(Value of_channels, Value x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.shape().rank()), 1);
  dims[1] = x.shape()[1];
  return ops::reshape(of_channels, Shape(dims));
}

// (B) as (B, 1, …), to be broadcast over x.
Value over_samples(Value of_samples, Value x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.shape().rank()), 1);
  dims[0] = x.shape()[0];
  return ops::reshape(of_samples, Shape(dims));
}

// The sum of each channel over the samples that count; of squares around the mean if it is given.
Value sum_of_channels(const ForwardContext& context, Value x, Value mean = {}) {
  if (!context.counted) return mean ? ops::channel_sum_of_squares(x, mean) : ops::channel_sum(x);
  const Value counts = over_samples(context.counted_mask, x);
  const Value centred = mean ? ops::sub(x, over_channels(mean, x)) : x;
  return ops::channel_sum(ops::mul(mean ? ops::mul(centred, centred) : x, counts));
}

// Values per channel of this rank, (1) f32. A graph does not depend on the number of padding samples.
Value count_of_rank(const ForwardContext& context, Value x) {
  const int64_t each = values_per_sample(x);
  if (!context.counted)
    return {x.program, x.program->constant(static_cast<double>(x.shape()[0] * each), {DType::kF32, Shape{1}})};
  return ops::mul(ops::sum(context.counted_mask, std::array<int64_t, 1>{0}, /*keep_dims=*/true),
                  static_cast<double>(each));
}

// The variance of a single value is unknown. With several ranks and no padding, each has at least one sample.
void check_count(const ForwardContext& context, Value x, bool sync) {
  const bool of_all = sync && context.ranks > 1;
  if (of_all && !context.counted) return;
  const int64_t samples = of_all ? context.counted->all : context.counted ? context.counted->own : x.shape()[0];
  RUN_CHECK(samples * values_per_sample(x) != 1, ErrorKind::kRun,
            "expected more than 1 value per channel in training, got {}{}: the variance of one value is unknown; set "
            "data.drop_last: true, or another data.batch_size",
            x.type(), context.counted ? ", where all other samples are padding" : "");
}

// First the mean, then squares around it: the difference of two large sums would be inexact. `sum`: sums a (n) over the
// ranks that share the statistics. A rank that has only padding has the count 0.
template <class Sum>
ChannelStatistics statistics_of(const ForwardContext& context, Value x, const Sum& sum) {
  const Value sums = sum(ops::concat(std::array{sum_of_channels(context, x), count_of_rank(context, x)}, 0));
  const int64_t channels = x.shape()[1];
  const Value count = ops::slice(sums, 0, channels, channels + 1);
  const Value divisor = context.counted ? ops::maximum(count, ops::full_like(count, 1)) : count;
  const Value mean = ops::div(ops::slice(sums, 0, 0, channels), divisor);
  const Value squares = sum(sum_of_channels(context, x, mean));
  return {mean, ops::div(squares, divisor), ops::div(squares, ops::sub(count, 1.0)), count};
}

Value sum_over_ranks(Value x) {
  return ops::all_reduce(x, backends::Reduction::kSum, backends::Subject::kStatistics);
}

// Without padding, the count of a rank is a constant.
ChannelStatistics statistics_of_rank(const ForwardContext& context, Value x) {
  if (context.counted) return statistics_of(context, x, [](Value own) { return own; });
  const auto count = static_cast<double>(x.shape()[0] * values_per_sample(x));
  const Value mean = ops::div(sum_of_channels(context, x), count);
  const Value squares = sum_of_channels(context, x, mean);
  return {mean, ops::div(squares, count), ops::div(squares, count - 1)};
}

// x: (B, C, …) f32.
Value normalised(Value x, Value mean, Value variance, Value weight, Value bias, double eps) {
  const Value deviation = ops::sqrt(ops::add(variance, eps));
  const Value scale = weight ? ops::div(weight, deviation) : ops::div(1.0, deviation);
  return ops::batch_norm(x, mean, scale, bias);
}

// () bool: whether all elements are finite.
Value all_finite(Value x) {
  return ops::gt(ops::reduce_min(ops::cast(ops::is_finite(x), DType::kF32)), 0.5);
}

class BatchNorm : public Module {
 public:
  BatchNorm(int64_t channels, int dimensions, const BatchNormOptions& options)
      : channels_(channels),
        dimensions_(dimensions),
        options_(options),
        type_(dimensions == 1 ? "nn.BatchNorm1d" : "nn.BatchNorm2d") {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    const Shape shape{channels_};
    if (options_.affine) {
      weight_ = parameters.add(prefix + "weight", shape, {Initialiser::Kind::kOnes, 0}, ParameterRole::kNormWeight);
      bias_ = parameters.add(prefix + "bias", shape, {Initialiser::Kind::kZeros, 0}, ParameterRole::kNormBias);
    }
    if (options_.affine && options_.frozen == schema::FrozenNorm::kAll)
      for (const ParameterId id : {weight_, bias_}) parameters.fix(id);
    const auto add = [&](ModelBuffer buffer) {
      buffer.name = prefix + buffer.name;
      buffer.moves = moves();
      return parameters.add_buffer(std::move(buffer));
    };
    mean_ = add({.name = "running_mean", .type = {DType::kF32, shape}});
    variance_ = add({.name = "running_var", .type = {DType::kF32, shape}, .initial = 1, .least = 0});
    batches_ = add({.name = std::string(kBatchesTracked), .type = {DType::kI64, {}}, .least = 0});
    if (moves())
      not_finite_ =
          add({.name = std::string(kBatchesNotFinite), .type = {DType::kI64, {}}, .least = 0, .is_internal = true});
    if (options_.sync && moves()) parameters.exchange_in_forward();
  }

  Value record(ForwardContext& context, Value x) const override {
    check_input(x);
    const Value weight = options_.affine ? context.parameter(weight_) : Value(),
                bias = options_.affine ? context.parameter(bias_) : Value();
    const Value raised = Autocast::raise(x);
    if (!context.training || !moves())
      return normalised_by(x, context.buffer(mean_), context.buffer(variance_), weight, bias, options_.eps);
    check_count(context, x, options_.sync);
    const ChannelStatistics batch = options_.sync && context.ranks > 1 ? statistics_of(context, raised, sum_over_ranks)
                                                                       : statistics_of_rank(context, raised);
    move_running(context, batch);
    return ops::cast(normalised(raised, batch.mean, batch.variance, weight, bias, options_.eps), x.dtype());
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    if (!options_.affine) return {};
    return {{"weight", weight_}, {"bias", bias_}};
  }
  std::vector<std::pair<std::string, BufferId>> own_buffers() const override {
    return {{"running_mean", mean_}, {"running_var", variance_}, {"num_batches_tracked", batches_}};
  }
  std::string_view type() const override { return type_; }
  std::string text() const override {
    constexpr BatchNormOptions kDefaults;
    OptionsText options;
    options.add("eps", options_.eps, kDefaults.eps);
    if (options_.momentum)
      options.add("momentum", *options_.momentum, *kDefaults.momentum);
    else
      options.add("momentum", "false");
    options.add("affine", options_.affine, kDefaults.affine);
    options.add("sync", options_.sync, kDefaults.sync);
    if (options_.frozen != kDefaults.frozen) options.add("frozen", fmt::format("\"{}\"", name_of(options_.frozen)));
    return fmt::format("{}({}{})", type_, channels_, options.after_arguments());
  }

 private:
  bool moves() const { return options_.frozen == schema::FrozenNorm::kNone; }

  void check_input(Value x) const {
    const int rank = x.shape().rank();
    const bool fits = dimensions_ == 1 ? rank == 2 || rank == 3 : rank == 4;
    RUN_CHECK(
        fits && x.shape()[1] == channels_ && is_float(x.dtype()), ErrorKind::kRun,
        "expected a tensor of floats {}, got {}",
        dimensions_ == 1 ? fmt::format("(B, {0}) or (B, {0}, L)", channels_) : fmt::format("(B, {}, H, W)", channels_),
        x.type());
  }

  void move_running(ForwardContext& context, const ChannelStatistics& batch) const {
    const Value mean = ops::detach(batch.mean), variance = ops::detach(batch.unbiased);
    const Value is_finite = ops::logical_and(all_finite(mean), all_finite(variance));
    Value moves = is_finite;
    if (batch.count) moves = ops::logical_and(moves, ops::reshape(ops::gt(batch.count, 1.0), Shape{}));
    const auto next = [](Value count) { return ops::add(count, ops::full_like(count, 1)); };
    const Value before = context.buffer(batches_), batches = next(before), left_out = context.buffer(not_finite_);
    const Value rate = options_.momentum ? ops::full_like(ops::cast(before, DType::kF32), *options_.momentum)
                                         : ops::div(1.0, ops::cast(batches, DType::kF32));
    const auto move = [&](BufferId id, Value now) {
      const Value running = context.buffer(id);
      const Value moved = ops::add(ops::mul(running, ops::sub(1.0, rate)), ops::mul(now, rate));
      context.update_buffer(id, ops::where(moves, moved, running));
    };
    move(mean_, mean);
    move(variance_, variance);
    context.update_buffer(batches_, ops::where(moves, batches, before));
    context.update_buffer(not_finite_, ops::where(is_finite, left_out, next(left_out)));
  }

  const int64_t channels_;
  const int dimensions_;
  const BatchNormOptions options_;
  const std::string_view type_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
  BufferId mean_ = kNoBuffer, variance_ = kNoBuffer, batches_ = kNoBuffer;
  BufferId not_finite_ = kNoBuffer;  // only if the statistics move
};

void check_groups(int64_t groups, int64_t channels) {
  RUN_CHECK(groups >= 1 && channels % groups == 0, ErrorKind::kRun,
            "expected a number of groups that divides the {} channels, got {}", channels, groups);
}

class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps, bool affine)
      : groups_(groups), channels_(channels), eps_(eps), affine_(affine) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    if (!affine_) return;
    const Shape shape{channels_};
    weight_ = parameters.add(prefix + "weight", shape, {Initialiser::Kind::kOnes, 0}, ParameterRole::kNormWeight);
    bias_ = parameters.add(prefix + "bias", shape, {Initialiser::Kind::kZeros, 0}, ParameterRole::kNormBias);
  }

  Value record(ForwardContext& context, Value x) const override {
    RUN_CHECK(x.shape().rank() >= 2 && x.shape()[1] == channels_, ErrorKind::kRun,
              "expected a tensor (B, {}, …), got {}", channels_, x.type());
    return group_normalised(x, groups_, affine_ ? context.parameter(weight_) : Value(),
                            affine_ ? context.parameter(bias_) : Value(), eps_);
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    if (!affine_) return {};
    return {{"weight", weight_}, {"bias", bias_}};
  }
  std::string_view type() const override { return "nn.GroupNorm"; }
  std::string text() const override {
    OptionsText options;
    options.add("eps", eps_, kNormEpsilon);
    options.add("affine", affine_, true);
    return fmt::format("nn.GroupNorm({}, {}{})", groups_, channels_, options.after_arguments());
  }

 private:
  const int64_t groups_, channels_;
  const double eps_;
  const bool affine_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

}  // namespace

BatchNormOptions BatchNormOptions::of(const schema::BatchNormSpec& spec) {
  BatchNormOptions options{.eps = spec.eps, .momentum = spec.momentum.number, .sync = spec.sync, .frozen = spec.frozen};
  if (!spec.momentum.word.empty()) options.momentum = std::nullopt;
  return options;
}

ModulePtr batch_norm(int64_t channels, int dimensions, const BatchNormOptions& options) {
  RUN_ASSERT(dimensions == 1 || dimensions == 2);
  return std::make_shared<BatchNorm>(channels, dimensions, options);
}

ModulePtr group_norm(int64_t groups, int64_t channels, double eps, bool affine) {
  check_groups(groups, channels);
  return std::make_shared<GroupNorm>(groups, channels, eps, affine);
}

Value normalised_by_batch(const ForwardContext& context, Value x, Value weight, Value bias, double eps) {
  check_channels(x, "batch_norm");
  check_count(context, x, /*sync=*/false);
  const Value raised = Autocast::raise(x);
  const ChannelStatistics batch = statistics_of_rank(context, raised);
  return ops::cast(normalised(raised, batch.mean, batch.variance, weight, bias, eps), x.dtype());
}

Value normalised_by(Value x, Value mean, Value variance, Value weight, Value bias, double eps) {
  check_channels(x, "batch_norm");
  return ops::cast(normalised(Autocast::raise(x), mean, variance, weight, bias, eps), x.dtype());
}

// As layer normalisation of the elements of each group.
Value group_normalised(Value x, int64_t groups, Value weight, Value bias, double eps) {
  check_channels(x, "group_norm");
  check_groups(groups, x.shape()[1]);
  const int64_t samples = x.shape()[0];
  const int64_t each = x.shape()[1] / groups * values_per_sample(x);
  const Value grouped = ops::reshape(Autocast::raise(x), Shape{samples, groups, each});
  const Value ones{x.program, x.program->constant(1, {DType::kF32, Shape{each}})};
  Value y = ops::reshape(ops::layer_norm(grouped, ones, ops::full_like(ones, 0), eps), x.shape());
  if (weight) y = ops::mul(y, over_channels(weight, y));
  if (bias) y = ops::add(y, over_channels(bias, y));
  return ops::cast(y, x.dtype());
}

}  // namespace runner::nn
