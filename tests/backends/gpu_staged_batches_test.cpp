// Batches copied to an emulated GPU before a submission needs them: the submission reads the copy if it is usable.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/gpu_device.h"
#include "backends/ir/ops.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

using Floats = std::vector<float>;

// The sum of the first input; the others are not read.
Program sum_of(int64_t elements) {
  Program program;
  const auto input = [&](const char* name) -> Value {
    return {&program, program.input(InputKind::kBatch, name, {DType::kF32, Shape{elements}})};
  };
  const Value x = input("x");
  input("mask");
  program.output("sum", ops::sum(x).id);
  return program;
}

// Fails unless the index is 0.
Program look_up() {
  Program program;
  const Value table{&program, program.input(InputKind::kBatch, "table", {DType::kF32, Shape{1, 1}})};
  const Value index{&program, program.input(InputKind::kBatch, "index", {DType::kI64, Shape{1}})};
  program.output("row", ops::embedding(table, index).id);
  return program;
}

class GpuStagedBatches : public ::testing::TestWithParam<bool> {
 protected:
  GpuStagedBatches() : device_(make_gpu_device({.own_thread = GetParam()})), step_(device_->compile(sum_of(4))) {}

  static std::vector<std::span<const std::byte>> inputs(const Floats& x) {
    return {std::as_bytes(std::span(x)), std::as_bytes(std::span(x))};
  }
  uint64_t stage(const Floats& x) { return device_->streams()->stage(*step_, inputs(x)); }

  float sum(const Floats& x, uint64_t staged) { return sum(*step_, x, staged); }
  float sum(Executable& step, const Floats& x, uint64_t staged) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(x.data());
    const std::byte* const batch[] = {bytes, bytes};
    device_->wait(device_->submit(step, {.states = {}, .batch = batch, .scalars = {}, .staged = staged}));
    float result = 0;
    device_->read_output(step, 0, std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }

  void fail() {
    const auto failing = device_->compile(look_up());
    const float table = 0;
    const int64_t index = 1;
    const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(&table),
                                      reinterpret_cast<const std::byte*>(&index)};
    EXPECT_THROW(device_->wait(device_->submit(*failing, {.states = {}, .batch = batch, .scalars = {}})), Error);
  }

  const std::unique_ptr<ModelledDevice> device_;
  const std::shared_ptr<Executable> step_;
};
INSTANTIATE_TEST_SUITE_P(OwnThread, GpuStagedBatches, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

TEST_P(GpuStagedBatches, AreReadBySubmissionsWithTheirTicket) {
  Floats x{1, 2, 3, 4};
  const uint64_t staged = stage(x);
  EXPECT_NE(staged, 0u);
  EXPECT_EQ(sum(x, staged), 10);
  x = {5, 5, 5, 5};
  EXPECT_EQ(sum(x, staged), 10) << "the staged copy is read again";
  EXPECT_EQ(sum(x, 0), 20);
}

TEST_P(GpuStagedBatches, StayUntilTheCallAfterTheNext) {
  Floats x{1, 1, 1, 1};
  const uint64_t first = stage(x);
  EXPECT_EQ(sum(x, first), 4);
  const Floats y{2, 2, 2, 2}, z{3, 3, 3, 3};
  const uint64_t second = stage(y);
  x = {7, 7, 7, 7};
  EXPECT_EQ(sum(x, first), 4);
  const uint64_t third = stage(z);
  EXPECT_EQ(sum(x, first), 28) << "the staged copy was dropped";
  EXPECT_EQ(sum(x, second), 8);
  EXPECT_EQ(sum(x, third), 12);
  device_->streams()->drop_staged();
  EXPECT_EQ(sum(x, third), 28);
}

TEST_P(GpuStagedBatches, OfOtherSizesAreNotUsed) {
  const Floats x{1, 2, 3, 4};
  const uint64_t staged = stage(x);
  const auto shorter = device_->compile(sum_of(2));
  EXPECT_EQ(sum(*shorter, {10, 20}, staged), 30);
}

// A copy queued after a failed launch may have been skipped.
TEST_P(GpuStagedBatches, AreNotUsedAfterAFailure) {
  Floats x{1, 2, 3, 4};
  const uint64_t staged = stage(x);
  fail();
  x = {5, 5, 5, 5};
  EXPECT_EQ(sum(x, staged), 20);
}

// No submission reads them, so no submission implies that their copies are complete.
TEST_P(GpuStagedBatches, CanBeStagedRepeatedly) {
  constexpr int64_t kFloats = 1 << 18;
  const auto step = device_->compile(sum_of(kFloats));
  const Floats x(kFloats, 1.0F);
  uint64_t staged = 0;
  for (int i = 0; i < 50; ++i) staged = device_->streams()->stage(*step, inputs(x));
  EXPECT_EQ(sum(*step, x, staged), static_cast<float>(kFloats));
}

// After drop_staged() the owner may free the memory.
TEST_P(GpuStagedBatches, CanBeDroppedUnused) {
  for (int i = 0; i < 200; ++i) {
    const auto x = std::make_unique<Floats>(4096, 1.0F);
    const auto step = device_->compile(sum_of(4096));
    device_->streams()->stage(*step, inputs(*x));
    device_->streams()->drop_staged();
  }
}

}  // namespace
}  // namespace runner::backends::gpu
