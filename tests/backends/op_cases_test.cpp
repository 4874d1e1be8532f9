// Op cases: fast kernels against reference kernels, derivatives against finite differences, and completeness of the
// table.
#include "tests/backends/op_cases.h"

#include <set>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/autograd.h"
#include "tests/backends/golden_ops.h"
#include "tests/backends/support/derivative.h"
#include "tests/backends/support/run_program.h"
#include "tests/backends/support/tolerance.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"
#include "tests/support/temp_folder.h"

namespace runner::backends::testing {
namespace {

// Units in the last place of the result or, for sums that cancel, of the largest result. The reference rounds once, the
// fast kernels once per operation in the compute type.
constexpr double kAllowedUlps = 16;

TEST(OpCases, FastKernelsMatchReferenceKernels) {
  WorkerPool pool(1);
  for (const OpCase& c : op_cases(OpCaseSize::kSmall)) {
    SCOPED_TRACE(c.name());
    const RecordedCase recorded(c);
    const Results fast = run_plan_once(recorded.program, recorded.tensors, {}, pool);
    const Results want = run_plan_once(recorded.program, recorded.tensors, {.kernels = kReferenceKernels}, pool);
    EXPECT_EQ(far_apart(fast.outputs[0], want.outputs[0], kAllowedUlps), "");
  }
}

// Σ w · f(x) with distinct weights w, and its derivatives with respect to x.
struct WeightedSum {
  RecordedCase recorded;
  std::vector<size_t> floats;  // inputs that have a derivative

  explicit WeightedSum(const OpCase& c)
      : recorded(c), floats(output_weighted_sum(recorded.result, recorded.inputs, recorded.tensors)) {}
};

TEST(OpCases, DerivativesMatchFiniteDifferences) {
  const auto device = make_cpu_device(1);
  int checked = 0;
  for (const OpCase& c : op_cases(OpCaseSize::kSmall)) {
    const bool wanted = std::any_of(c.inputs.begin(), c.inputs.end(), [](const OpInput& input) {
      return input.type.dtype == DType::kF64 && input.type.shape.elements() <= 60;
    });
    if (!wanted) continue;
    SCOPED_TRACE(c.name());
    const RecordedCase plain(c);
    if (plain.result.dtype() != DType::kF64) continue;
    const WeightedSum sum(c);
    Session session(*device, sum.recorded.program, sum.recorded.tensors);
    session.submit();
    for (size_t k = 0; k < sum.floats.size(); ++k) {
      const size_t input = sum.floats[k];
      session.submit();
      const HostTensor gradient = session.output(2 + k);
      for (int64_t i = 0; i < gradient.size(); ++i, ++checked) {
        const double slope = finite_difference(session, 1, sum.recorded.tensors[input], input, i);
        EXPECT_NEAR(gradient[i], slope, 1e-8 * std::max(1.0, std::fabs(slope)))
            << "input " << input << ", element " << i;
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

// Functions declared in ir/ops.h.
std::set<std::string> declared_functions() {
  const std::string text = support::read_text(support::source_path("backends/ir/ops.h"));
  const support::Pattern function(R"((?:^|\n)(?:inline )?Value (\w+)\()");
  std::set<std::string> names;
  for (const support::Pattern::Groups& groups : function.find_all(text)) names.insert(groups[1]);
  return names;
}

TEST(OpCases, EveryFunctionHasACase) {
  std::set<std::string> covered = {"unary", "binary", "reduce"};  // building blocks of the named functions
  for (const OpCase& c : op_cases(OpCaseSize::kSmall)) covered.insert(c.function);
  const std::set<std::string> declared = declared_functions();
  const std::set<std::string> by_op = {"logical_not", "logical_or",      "rsqrt",
                                       "gelu_slope",  "gelu_tanh_slope", "silu_slope"};  // with unary() and binary()
  EXPECT_GT(declared.size(), 60u);
  for (const std::string& name : declared) EXPECT_EQ(covered.count(name), 1u) << name << " has no row in op_cases.cpp";
  for (const std::string& name : covered)
    EXPECT_EQ(declared.count(name) + by_op.count(name), 1u) << name << " is not in ir/ops.h";
}

TEST(OpCases, EveryOpHasACase) {
  std::set<Op> covered;
  for (const OpCase& c : op_cases(OpCaseSize::kSmall)) {
    RecordedCase recorded(c);
    if (is_float(recorded.result.dtype()))
      differentiate(recorded.result, ops::full_like(recorded.result, 1.0), recorded.inputs);
    for (ValueId id = 0; id < recorded.program.size(); ++id) covered.insert(recorded.program.node(id).op);
  }
  for (int op = 0; op < kOpCount; ++op)
    EXPECT_EQ(covered.count(static_cast<Op>(op)), 1u) << name_of(static_cast<Op>(op)) << " has no row in op_cases.cpp";
}

}  // namespace
}  // namespace runner::backends::testing
