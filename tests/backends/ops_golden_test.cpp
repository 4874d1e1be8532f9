// Every op and its derivative against PyTorch's results, with the fast and with the reference kernels.
#include <set>

#include <gtest/gtest.h>

#include "tests/backends/golden_ops.h"
#include "tests/backends/support/run_program.h"
#include "tests/backends/support/tolerance.h"

namespace runner::backends::testing {
namespace {

using runner::testing::Golden;

// The results of these are fixed by IEEE 754, or the ops only move elements.
const std::set<std::string> kExact = {"abs",    "neg",        "sign",    "relu",     "cast",   "add",    "sub",
                                      "mul",    "div",        "minimum", "maximum",  "eq",     "ne",     "lt",
                                      "le",     "gt",         "ge",      "where",    "clamp",  "sqrt",   "reduce_max",
                                      "argmax", "reduce_min", "reshape", "permute",  "expand", "concat", "slice",
                                      "pad",    "gather",     "one_hot", "embedding"};

// PyTorch's f64 functions are off by a few units themselves, and by many where a mean cancels.
double allowed_ulps(const Golden& item, const std::string& output) {
  if (output == "output" && kExact.count(item["op"].text()) > 0) return 0;
  return item.name() == "layer_norm/hard_rows/f64" ? 1000 : 16;
}

// The case with the expected results. f64 results are also the exact reference for f32, and better than torch's f32,
// which gives gelu(inf) = NaN and silu(-90) = 0.
Golden reference_of(const Golden& file, const Golden& item) {
  const std::string name = item.name();
  const bool has_both = name.ends_with("/f32") && item["op"].text() != "one_hot";
  return has_both ? file.find(name.substr(0, name.size() - 3) + "f64") : item;
}

HostTensor rounded_to(DType dtype, const HostTensor& tensor) {
  return is_float(tensor.type.dtype) ? HostTensor({dtype, tensor.type.shape}, tensor.values()) : tensor;
}

void check_all(const KernelSource& kernels) {
  WorkerPool pool(1);
  const Golden file = Golden::load("ops.json");
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    const GoldenOp op = record_golden(item);
    const GoldenOp reference = record_golden(reference_of(file, item));
    const Results results = run_plan_once(op.program, op.inputs, {.kernels = kernels}, pool);
    for (size_t i = 0; i < op.expected.size(); ++i) {
      const auto& [name, want] = reference.expected[i];
      const HostTensor& got = results.outputs[i];
      EXPECT_EQ(got.type, op.expected[i].second.type);
      EXPECT_EQ(far_apart(got, rounded_to(got.type.dtype, want), allowed_ulps(item, name)), "") << name;
    }
  }
}

TEST(OpsGolden, FastKernelsMatchPyTorch) {
  check_all(kFastKernels);
}

TEST(OpsGolden, ReferenceKernelsMatchPyTorch) {
  check_all(kReferenceKernels);
}

}  // namespace
}  // namespace runner::backends::testing
