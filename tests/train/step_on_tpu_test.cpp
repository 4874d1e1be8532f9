// The trainer's steps as a TPU would store them: flat arrays as their tensors, new values in the memory of the old
// ones.
#include <gtest/gtest.h>

#include "backends/tpu/hbm.h"
#include "runner/train/step/declared_step.h"
#include "tests/backends/support/on_tpu.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

using backends::tpu::Allocation;
using backends::tpu::HbmBuffer;
using backends::tpu::HbmPlan;
using backends::tpu::testing::OnTpu;

// Tensors of the flat arrays of a layout: (5, 4), (5), (3, 5) and (3) of the MLP.
std::vector<std::vector<backends::TensorType>> tensors_of(const StepFixture& steps) {
  std::vector<std::vector<backends::TensorType>> types;
  for (const auto& tensors : steps.builder.layout().tensors()) {
    types.emplace_back();
    for (const backends::StateTensor& tensor : tensors) types.back().push_back(tensor.type);
  }
  return types;
}

// By hand, for a batch of 8: (5, 4) as 4 rows of 128, (5) as 128, (3, 5) as 4 rows of 128, (3) as 128, all f32; each
// sum (2) f64 as two of 128; features (8, 4) as 4 rows of 128; labels, sample ids and both keys s64; the mask f32.
constexpr int64_t kVector = 128 * 4;
constexpr int64_t kFlat = 10 * kVector, kSum = 2 * kVector, kTpuBatch = (4 + 2 + 2 + 2 + 2 + 1) * kVector;

int64_t arguments_of(const StepFixture& steps, const backends::Program& step) {
  int64_t bytes = kTpuBatch;
  for (const DeviceArray& array : steps.builder.layout().arrays())
    bytes += array.role == ArrayRole::kSum ? kSum : kFlat;
  for (const backends::Input& input : step.inputs()) bytes += input.kind == backends::InputKind::kScalar ? kVector : 0;
  return bytes;
}

void expect_in_place(const schema::Recipe& recipe, const StepShape& shape) {
  const StepFixture steps(recipe);
  const backends::Program step = complete_step(steps.builder, steps.builder.record(shape.batch, true), shape).program;
  const OnTpu graph(step, tensors_of(steps));
  const HbmPlan plan = backends::tpu::plan_hbm(graph.device(), {});
  EXPECT_EQ(plan.arguments, arguments_of(steps, step));
  int64_t replaced = 0, waiting = 0;
  for (const backends::Output& output : step.outputs())
    if (output.state >= 0) {
      const ArrayRole role = steps.builder.layout().arrays()[static_cast<size_t>(output.state)].role;
      replaced += role == ArrayRole::kSum ? kSum : kFlat;
    }
  EXPECT_EQ(plan.aliased, replaced);
  for (const HbmBuffer& buffer : plan.buffers)
    if (buffer.allocation == Allocation::kTemporary && buffer.last == static_cast<int>(graph.groups().size()))
      waiting += buffer.padded();
  // The first batch of an optimizer step builds its sum from two scalars, which are written to a vector at the end.
  EXPECT_EQ(waiting, shape.first && !shape.last ? 2 * kSum : 0);
}

TEST(StepOnTpu, StatesAreUpdatedInPlace) {
  for_each_update(expect_in_place);
}

}  // namespace
}  // namespace runner::train
