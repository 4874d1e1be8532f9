#include "runner/train/step/gradients.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "backends/ir/ops.h"
#include "runner/train/step/loss_scaler.h"
#include "schema/base/error.h"

namespace runner::train {

namespace ops = backends::ops;

Derivative derivative_of(Value root, Value seed, std::span<const Value> parameters, const nn::ParameterSet& set,
                         const backends::Finish& finish) {
  const auto finished = [&](size_t id, Value gradient) {
    return finish && set.parameters()[id].trainable ? finish(id, gradient) : gradient;
  };
  const std::vector<Value> each = backends::differentiate(root, seed, parameters, finished);
  Derivative derivative{Gradients(set.buffers().size()), std::vector<Value>(each.size()), {}};
  for (size_t id = 0; id < each.size(); ++id) derivative.reached.push_back(set.parameters()[id].trainable && each[id]);
  if (std::ranges::find(derivative.reached, true) == derivative.reached.end())
    throw Error(ErrorKind::kRun, "the loss does not depend on any trained parameter", root.program->mark_of(root.id))
        .locate(root.program->mark());
  for (size_t b = 0; b < set.buffers().size(); ++b) {
    if (set.buffers()[b].group < 0) continue;
    std::vector<Value> parts;
    for (const nn::ParameterId id : set.in_buffer(static_cast<int32_t>(b))) {
      const auto i = static_cast<size_t>(id);
      Value& part = derivative.of_parameters[i];
      part = each[i] ? each[i] : finished(i, ops::full_like(parameters[i], 0.0));
      parts.push_back(ops::flatten(part));
    }
    derivative.gradients[b] = ops::concat(parts, 0);
  }
  return derivative;
}

Value left_fold(std::span<const Value> values) {
  Value all = values.front();
  for (const Value value : values.subspan(1)) all = ops::add(all, value);
  return all;
}

// max(all, min(all, first)) is `all` as a value of the user, which a device rounds.
Value left_fold(std::span<const Value> values, bool rounds) {
  if (!rounds) return left_fold(values);
  std::vector<Value> exact;
  std::ranges::transform(values, std::back_inserter(exact), ops::on_host);
  const Value all = left_fold(exact);
  return ops::maximum(all, ops::minimum(all, values.front()));
}

std::vector<bool> needed_for(const backends::Program& program, backends::ValueId root) {
  std::vector<bool> needed(static_cast<size_t>(program.size()));
  needed[static_cast<size_t>(root)] = true;
  for (backends::ValueId id = root; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)] || program.node(id).op == backends::Op::kDetach) continue;
    for (const backends::ValueId operand : program.operands(id)) needed[static_cast<size_t>(operand)] = true;
  }
  return needed;
}

namespace {

// None means f32.
std::optional<backends::DType> communication_type(const schema::CommSpec& comm) {
  using schema::CommHook;
  using schema::CommWrapper;
  if (comm.hook == CommHook::kNone) return std::nullopt;
  if (comm.hook == CommHook::kFp16 || comm.wrapper == CommWrapper::kFp16) return backends::DType::kF16;
  if (comm.hook == CommHook::kBf16 || comm.wrapper == CommWrapper::kBf16) return backends::DType::kBf16;
  return std::nullopt;
}

}  // namespace

Value rounded_for_communication(Value gradient, const schema::CommSpec& comm) {
  const auto type = communication_type(comm);
  return type ? ops::cast(ops::cast(gradient, *type), backends::DType::kF32) : gradient;
}

bool communicates_in_fp16(const schema::Recipe& recipe) {
  return recipe.num_processes > 1 && communication_type(recipe.comm) == backends::DType::kF16;
}

bool checks_gradients(const schema::Recipe& recipe) {
  return recipe.train.on_nan == schema::OnNan::kSkip || communicates_in_fp16(recipe) || first_scale(recipe).has_value();
}

Value sum_of_squares(std::span<const Value> gradients) {
  Value squares;
  for (const Value gradient : gradients) {
    if (!gradient) continue;
    const Value part = ops::sum(ops::mul(gradient, gradient));
    squares = squares ? ops::add(squares, part) : part;
  }
  return squares;
}

Value sum_of_squares(std::span<const Value> gradients, std::span<const Shard> ranks, bool rounds) {
  if (ranks.empty()) return sum_of_squares(gradients);
  std::vector<Value> parts;
  for (const Shard& rank : ranks) {
    Gradients share(gradients.size());
    for (size_t b = 0; b < gradients.size(); ++b) {
      const auto [first, count] = rank.of(static_cast<int32_t>(b));
      if (gradients[b] && count > 0) share[b] = ops::slice(gradients[b], 0, first, first + count);
    }
    if (const Value part = sum_of_squares(share)) parts.push_back(part);
  }
  if (parts.empty()) return {};
  return left_fold(parts, rounds);
}

Value clip_factor(Value norm, Value limit) {
  const Value room = ops::div(limit, ops::add(norm, 1e-6));
  return ops::minimum(room, ops::full_like(room, 1.0));
}

}  // namespace runner::train
