#include "runner/train/step/factored_layout.h"

#include <algorithm>
#include <optional>

#include "backends/ir/ops.h"
#include "backends/kernels/kernel_choices.h"
#include "backends/tensor/rounding.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::Shape;

// The gradient is Aᵀ B.
struct Factors {
  Value a, b;  // (K, M), (K, N)
};

std::optional<Factors> factors_of(Value gradient) {
  if (!gradient) return std::nullopt;
  const backends::Program& program = *gradient.program;
  const auto operands = program.operands(gradient.id);
  const auto attrs = program.attrs(gradient.id);
  const bool product = program.node(gradient.id).op == backends::Op::kMatmul && operands.size() == 2 &&
                       gradient.shape().rank() == 2 && gradient.dtype() == backends::DType::kF32;
  if (!product || attrs.size() > 2 || attrs[0] == 0 || attrs[1] != 0) return std::nullopt;
  return Factors{{gradient.program, operands[0]}, {gradient.program, operands[1]}};
}

// Smaller gradients stay in cache. Factors of at most half their size were measured to save more than the additional
// products cost. A rank computes some rows of the product, which must have the bits of the whole.
bool is_worth_it(const Shape& gradient, int64_t samples) {
  constexpr int64_t kLarge = 1 << 16;
  return gradient.elements() >= kLarge && 2 * samples * (gradient[0] + gradient[1]) <= gradient.elements() &&
         backends::has_uniform_rows(gradient[0], gradient[1], samples);
}

int64_t elements_of(const FactoredPart& part, const nn::Parameter& parameter) {
  return part.samples == 0 ? parameter.elements() : part.samples * (parameter.shape[0] + parameter.shape[1]);
}

// Pads a factor with rows of zeros.
Value padded(Value factor, int64_t samples) {
  return ops::flatten(ops::pad(factor, 0, 0, samples - factor.shape()[0]));
}

Value slice_of(Value factored, int64_t first, int64_t count) {
  return ops::slice(factored, 0, first, first + count);
}

// Returns elements [first, end) of the sum of a weight's gradients, computed from whole rows. It uses at least two
// rows: the TPU does not treat a product with one row as a matrix product, and rounds only matrix products.
Value sum_of_products(std::span<const Value> by_rank, const FactoredPart& part, const Shape& weight, int64_t first,
                      int64_t end) {
  const int64_t rows = weight[0], cols = weight[1];
  const int64_t first_row = std::max<int64_t>(std::min(first / cols, rows - 2), 0);
  const int64_t end_row = std::min(std::max(backends::ceil_div(end, cols), first_row + 2), rows);
  Value sum;
  for (const Value factored : by_rank) {
    const Value a = ops::reshape(slice_of(factored, part.offset, part.samples * rows), {part.samples, rows});
    const Value b =
        ops::reshape(slice_of(factored, part.offset + part.samples * rows, part.samples * cols), {part.samples, cols});
    const Value mine = ops::slice(a, 1, first_row, end_row);
    sum = sum ? ops::add_matmul(sum, mine, b, true) : ops::matmul(mine, b, true);
  }
  return ops::slice(ops::flatten(sum), 0, first - first_row * cols, end - first_row * cols);
}

Value sum_of_parts(std::span<const Value> by_rank, const FactoredPart& part, int64_t first, int64_t end) {
  std::vector<Value> parts;
  for (const Value factored : by_rank) parts.push_back(slice_of(factored, part.offset + first, end - first));
  return left_fold(parts);
}

}  // namespace

FactoredLayout factored_layout(const Derivative& derivative, const nn::ParameterSet& set) {
  FactoredLayout layout;
  bool has_factors = false;
  for (size_t b = 0; b < set.buffers().size(); ++b) {
    if (set.buffers()[b].group < 0) continue;
    for (const nn::ParameterId id : set.in_buffer(static_cast<int32_t>(b))) {
      const Value gradient = derivative.of_parameters[static_cast<size_t>(id)];
      const auto factors = factors_of(gradient);
      const int64_t samples = factors ? factors->a.shape()[0] : 0;
      const bool worth_it = factors && is_worth_it(gradient.shape(), samples);
      layout.parts.push_back({id, layout.elements, worth_it ? samples : 0});
      layout.elements += elements_of(layout.parts.back(), set[id]);
      has_factors |= worth_it;
    }
  }
  return has_factors ? layout : FactoredLayout();
}

Value factored_gradients(const Derivative& derivative, const FactoredLayout& layout) {
  std::vector<Value> parts;
  for (const FactoredPart& part : layout.parts) {
    const Value gradient = derivative.of_parameters[static_cast<size_t>(part.parameter)];
    if (part.samples == 0) {
      parts.push_back(ops::flatten(gradient));
      continue;
    }
    const Factors factors = factors_of(gradient).value();
    parts.push_back(padded(factors.a, part.samples));
    parts.push_back(padded(factors.b, part.samples));
  }
  return ops::concat(parts, 0);
}

Value sum_of_factored(std::span<const Value> by_rank, const FactoredLayout& layout, const nn::ParameterSet& set,
                      int32_t buffer, const Shard::Range& range) {
  std::vector<Value> sums;
  for (const FactoredPart& part : layout.parts) {
    const nn::Parameter& parameter = set[part.parameter];
    if (parameter.buffer != buffer) continue;
    const int64_t first = std::max(range.first - parameter.offset, int64_t{0});
    const int64_t end = std::min(range.first + range.count - parameter.offset, parameter.elements());
    if (first >= end) continue;
    sums.push_back(part.samples > 0 ? sum_of_products(by_rank, part, parameter.shape, first, end)
                                    : sum_of_parts(by_rank, part, first, end));
  }
  return ops::concat(sums, 0);
}

}  // namespace runner::train
