#include "runner/train/step/declared_update.h"

#include <numeric>
#include <vector>

#include "backends/ir/ops.h"
#include "runner/train/step/clock_values.h"
#include "runner/train/step/device_rules.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Program;

// Norm of the gradients of all ranks, () f32. `factor`: any () f32. `rounds`: see sum_of_squares().
Value norm_of_all(const StepRecorder& step, const DeclaredUpdate& update, Value factor, bool rounds) {
  Value squares = sum_of_squares(step.gradients, update.norm_order, rounds);
  if (update.is_shard) {
    if (!squares) squares = ops::full_like(factor, 0.0);
    squares = ops::all_reduce(squares, backends::Reduction::kSum, backends::Subject::kGradients);
  }
  return ops::sqrt(squares);
}

// Decides whether the updates are applied. Returns the factor of all gradients: 1 / Σ weight, times that of
// torch.nn.utils.clip_grad_norm_.
Value decide_and_clip(StepRecorder& step, Program& program, const StepBuilder& builder, const DeclaredUpdate& update) {
  const std::optional<double> limit = builder.recipe().train.clip_grad_norm;
  Value factor = mean_factor(update.sums);
  if (update.are_means) factor = ops::full_like(factor, 1.0);
  step.finite = ops::is_finite(element(update.sums, 0));
  if (builder.layout().skips_unlabelled()) {
    const Value weight = element(update.sums, 1);
    step.has_weight = ops::ne(weight, ops::full_like(weight, 0.0));
  }
  Value norm;
  if (reports_grad_norm(builder.recipe()) || checks_gradients(builder.recipe()))
    norm = ops::mul(norm_of_all(step, update, factor, rounds_to_bf16(builder.recipe())), factor);
  step.decide_applied([&] { return ops::is_finite(norm); });
  program.output("finite", step.finite.id);
  if (reports_grad_norm(builder.recipe())) program.output("grad_norm", norm.id);
  if (!limit) return factor;
  return ops::mul(factor, clip_factor(norm, ops::full_like(norm, *limit)));
}

// Scalars of a buffer's group. StepBuilder::begin() declares them last, buffer by buffer.
std::vector<Value> scalar_inputs(Program& program, const StepBuilder& builder, size_t first_scalar, int32_t buffer) {
  const auto count = [&](int32_t b) {
    const int32_t group = builder.model().parameters.buffers()[static_cast<size_t>(b)].group;
    return group < 0 ? 0 : optim::scalar_count(builder.optimizers().rule(group));
  };
  for (int32_t b = 0; b < buffer; ++b) first_scalar += count(b);
  std::vector<Value> scalars;
  for (size_t i = 0; i < count(buffer); ++i) scalars.push_back(input_value(program, first_scalar + i));
  return scalars;
}

}  // namespace

Value mean_factor(Value sums) {
  const Value weight = element(sums, 1), zero = ops::full_like(weight, 0.0);
  return ops::cast(ops::where(ops::eq(weight, zero), zero, ops::div(1.0, weight)), DType::kF32);
}

void record_update(StepRecorder& step, Program& program, const StepBuilder& builder, const DeclaredUpdate& update) {
  const Value factor = decide_and_clip(step, program, builder, update);
  if (has_clock(step.arrays)) {
    program.output("applied", step.applied.id);
    program.output("factor", clock_factor(step.arrays).id);
  }
  const std::optional<double> limit = builder.recipe().train.clip_grad_value;
  for (int32_t b = 0; b < std::ssize(step.gradients); ++b) {
    Value gradient = step.gradients[static_cast<size_t>(b)];
    if (!gradient) continue;
    if (update.updated != nullptr) {
      const auto [first, count] = update.updated->of(b);
      if (count == 0) continue;
      gradient = ops::slice(gradient, 0, first, first + count);
    }
    gradient = ops::mul(gradient, factor);
    if (limit) gradient = ops::clamp(gradient, -*limit, *limit);
    step.update(
        b, {.gradient = gradient, .scalars = [&] { return scalar_inputs(program, builder, update.first_scalar, b); }});
  }
  step.average_buffers(
      [&] { return scalar_inputs(program, builder, update.first_scalar, builder.flat_buffers_of({}).front()).back(); });
  step.add_to_logged(update.sums);
  std::vector<int32_t> optimizers(builder.optimizers().names.size());
  std::iota(optimizers.begin(), optimizers.end(), 0);
  step.end_updates(optimizers);
  if (has_clock(step.arrays)) move_schedule(step.arrays, step.applied);
}

}  // namespace runner::train
