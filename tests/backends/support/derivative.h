// Derivatives of a weighted sum of a value, recorded and by finite differences.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {

// Declares as outputs the sum Σ w · y with distinct weights w and its gradients with respect to `by`. Adds w, which is
// the last input, to `tensors`. Returns the positions in `by` of the values that have a gradient.
inline std::vector<size_t> output_weighted_sum(Value y, std::span<const Value> by, Inputs& tensors) {
  Program& program = *y.program;
  const Value weights{&program, program.input(InputKind::kBatch, "weights", y.type())};
  tensors.emplace_back(y.type(), [](int64_t i) { return 0.5 + std::fmod(0.37 * static_cast<double>(i), 1.0); });
  const Value sum = ops::sum(ops::mul(y, weights));
  program.output("sum", sum.id);
  const std::vector<Value> gradients = differentiate(sum, ops::full_like(sum, 1.0), by);
  std::vector<size_t> with_gradient;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    with_gradient.push_back(i);
    program.output("gradient", gradients[i].id);
  }
  return with_gradient;
}

// Derivative of a () output with respect to one element of an input that holds `tensor`, by a formula with error h⁴.
inline double finite_difference(Session& session, size_t output, const HostTensor& tensor, size_t input,
                                int64_t element) {
  constexpr double h = 1e-3;
  HostTensor moved = tensor;
  const auto at = [&](double step) {
    moved.set(element, tensor[element] + step);
    session.set_input(input, moved);
    session.submit();
    return session.output(output)[0];
  };
  const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  session.set_input(input, tensor);
  return slope;
}

}  // namespace runner::backends::testing
