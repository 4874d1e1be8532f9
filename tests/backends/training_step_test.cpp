// A whole training step on the CPU device reduces the loss.
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "tests/backends/support/mlp_step.h"

namespace runner::backends::testing {
namespace {

double loss_after(const MlpOptions& options, int steps) {
  const MlpStep step(options);
  Inputs inputs = step.inputs(7);
  const auto device = make_cpu_device(1);
  Session session(*device, step.program(), inputs);
  for (int i = 1; i <= steps; ++i) {
    MlpStep::set_step(inputs, i);
    for (const size_t input : {kKey, kKeep, kStepSize, kRoot}) session.set_input(input, inputs[input]);
    session.submit();
  }
  return session.output(static_cast<size_t>(std::ssize(step.program().outputs()) - 1))[0];
}

TEST(TrainingStep, MlpLearns) {
  EXPECT_GT(loss_after({}, 1), 0.8);
  EXPECT_LT(loss_after({}, 60), 0.1);
}

TEST(TrainingStep, MlpWithLayerNormAndDropoutLearns) {
  const MlpOptions options{.batch = 16, .widths = {6, 24, 24, 4}, .layer_norm = true, .dropout = 0.1};
  EXPECT_GT(loss_after(options, 1), 0.8);
  EXPECT_LT(loss_after(options, 80), 0.3);
}

TEST(TrainingStep, Bf16MlpLearns) {
  EXPECT_LT(loss_after({.product_dtype = DType::kBf16}, 60), 0.15);
}

}  // namespace
}  // namespace runner::backends::testing
