// Predicted durations of launches, against published figures and values worked out by hand.
#include <vector>

#include <gtest/gtest.h>

#include "backends/device_model/ring_all_reduce.h"
#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/launch.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"

namespace runner::backends::gpu {
namespace {

struct Recorded {
  Program program;

  Value operator()(const Shape& shape, DType dtype = DType::kF32, InputKind kind = InputKind::kBatch) {
    return {&program, program.input(kind, "x", {dtype, shape})};
  }
  std::vector<Launch> launches(const GpuMachine& machine = {}) const {
    return launches_of(build_plan(program, {.fusion = Fusion::kFlat}), machine);
  }
};

Launch only_launch(const Recorded& recorded, const GpuMachine& machine = {}) {
  const std::vector<Launch> launches = recorded.launches(machine);
  EXPECT_EQ(launches.size(), 1U);
  return launches.at(0);
}

// 2 · 4096³ flops: 7.048 ms at 19.5 TFLOP/s, 881 us at 156; 201 MB take 129 us.
TEST(GpuLaunch, LargeProductsAreComputeBound) {
  Recorded g;
  g.program.output("", ops::matmul(g({4096, 4096}), g({4096, 4096})).id);
  const Launch f32 = only_launch(g), tf32 = only_launch(g, {.allow_tf32 = true});
  EXPECT_EQ(f32.cls, LaunchClass::kMatmul);
  EXPECT_EQ(f32.duration, to_picoseconds(2.0 * 4096 * 4096 * 4096 / 19.5e12));
  EXPECT_EQ(f32.at_peak, f32.duration);
  EXPECT_EQ(tf32.duration, to_picoseconds(2.0 * 4096 * 4096 * 4096 / 156e12));
}

// (1, 4096) × (4096, 4096): 67 MB take 43 us, 33.6 MFLOP 1.7 us.
TEST(GpuLaunch, ProductsWithAVectorAreMemoryBound) {
  Recorded g;
  g.program.output("", ops::matmul(g({1, 4096}), g({4096, 4096})).id);
  const Launch launch = only_launch(g);
  EXPECT_EQ(launch.duration, to_picoseconds(4.0 * (2 * 4096 + 4096 * 4096) / 1555e9));
  EXPECT_EQ(launch.at_peak, to_picoseconds(2.0 * 4096 * 4096 / 19.5e12));
}

TEST(GpuLaunch, LoopsCountOperandsAndResults) {
  Recorded g;
  const Value x = g({1 << 20, 16});
  g.program.output("", ops::mul(x, x).id);
  const Launch launch = only_launch(g);
  EXPECT_EQ(launch.cls, LaunchClass::kElementwise);
  EXPECT_EQ(launch.duration, to_picoseconds(2.0 * 4 * 16 * (1 << 20) / 1555e9));
}

TEST(GpuLaunch, SmallKernelsTakeTheShortestTime) {
  Recorded g;
  const Value x = g({16});
  g.program.output("", ops::mul(x, x).id);
  EXPECT_EQ(only_launch(g).duration, kShortestKernel);
}

// The table of 512 MB is not read in full: 65536 rows of 512 bytes are read and written, and their indices read.
TEST(GpuLaunch, GathersCountOnlyAccessedRows) {
  Recorded g;
  g.program.output("", ops::embedding(g({1 << 20, 128}), g({1 << 16}, DType::kI64)).id);
  const Launch launch = only_launch(g);
  EXPECT_EQ(launch.cls, LaunchClass::kIndex);
  EXPECT_EQ(launch.duration, to_picoseconds((2.0 * 512 + 8) * (1 << 16) / 1555e9));
}

// w − grad²: one launch over the flat buffers, which reads two and writes one.
TEST(GpuLaunch, UpdatesOfStatesCountAsOptimizer) {
  Recorded g;
  const Value w = g({1 << 20}, DType::kF32, InputKind::kState), grad = g({1 << 20});
  g.program.output("", ops::sub(w, ops::mul(grad, grad)).id, 0);
  const Launch launch = only_launch(g);
  EXPECT_EQ(launch.cls, LaunchClass::kOptimizer);
  EXPECT_EQ(launch.duration, to_picoseconds(3.0 * 4 * (1 << 20) / 1555e9));
}

TEST(GpuLaunch, EveryStepOfTrainingHasOne) {
  const backends::testing::MlpStep step({.batch = 64, .widths = {784, 256, 10}, .layer_norm = true, .dropout = 0.1});
  const Plan plan = build_plan(step.program(), {.fusion = Fusion::kFlat});
  const std::vector<Launch> launches = launches_of(plan, {});
  ASSERT_EQ(launches.size(), plan.steps.size() + plan.copies.size());
  Picoseconds optimizer = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    EXPECT_GE(launches[i].duration, kShortestKernel);
    EXPECT_LE(launches[i].at_peak, launches[i].duration);
    EXPECT_FALSE(launches[i].name.empty());
    if (launches[i].cls == LaunchClass::kOptimizer) optimizer += launches[i].duration;
  }
  EXPECT_GT(optimizer, 0);
}

// ---- links ---------------------------------------------------------------------------------------------------------

// Two GPUs send half of the bytes twice; eight GPUs send an eighth fourteen times.
TEST(GpuLink, RingsSendEveryPartTwice) {
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(1e6, 2, 1e9, 1e-6), 1e-3 + 2e-6);
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(8e6, 8, 1e9, 1e-6), 14e-3 + 14e-6);
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(8e6, 1, 1e9, 1e-6), 0);
}

// 25 MiB over two A100s: 26.2 MB at 235 GB/s and two hops of 3.4 us, after a base latency of 8.4 us.
TEST(GpuLink, LargeAllReducesUseTheFullLinkRate) {
  constexpr int64_t kBytes = 25 << 20;
  EXPECT_EQ(all_reduce(kBytes, {.gpus = 2}).duration, to_picoseconds(8.4e-6 + kBytes / 235e9 + 2 * 3.4e-6));
  EXPECT_EQ(all_reduce(kBytes, {.gpus = 8}).duration, to_picoseconds(8.4e-6 + 1.75 * kBytes / 235e9 + 14 * 3.4e-6));
  const GpuMachine t4{.model = GpuProduct::kT4, .gpus = 8};
  EXPECT_EQ(all_reduce(kBytes, t4).duration, to_picoseconds(8.4e-6 + 1.75 * kBytes / 12e9 + 14 * 5.7e-6));
}

// A scalar uses the protocol with the lowest latency, at a quarter of the rate.
TEST(GpuLink, SmallAllReducesUseTheFastestProtocol) {
  EXPECT_EQ(all_reduce(4, {.gpus = 8}).duration, to_picoseconds(6.6e-6 + 1.75 * 4 / (235e9 / 4) + 14 * 0.6e-6));
  const GpuMachine l4{.model = GpuProduct::kL4, .gpus = 2};
  EXPECT_EQ(all_reduce(4, l4).duration, to_picoseconds(6.6e-6 + 4 / (24e9 / 4) + 2 * 1.0e-6));
  EXPECT_EQ(all_reduce(1 << 20, {.gpus = 1}).duration, kShortestKernel);
}

TEST(GpuLink, CopiesRunAtTheHostLinkRate) {
  EXPECT_EQ(host_copy(24'000'000, {}).duration, to_picoseconds(1e-3));
  EXPECT_EQ(host_copy(24'000'000, {.model = GpuProduct::kT4}).duration, to_picoseconds(2e-3));
  EXPECT_EQ(host_copy(1, {}).duration, kShortestKernel);
  EXPECT_EQ(host_copy(1, {}).cls, LaunchClass::kCopy);
}

// ---- measured trainings --------------------------------------------------------------------------------------------

// BERT-large on one A100, as NVIDIA measured its PyTorch examples (pytorch:20.06-py3 with 40 GB, 21.11-py3 with 80 GB;
// sequences per second). No kernel reaches its roofline, so the prediction should be shorter. But NVIDIA's version
// fuses gelu with its bias, norms, and masks with softmax, which is most of the remaining work at half precision.
TEST(GpuBertLarge, PredictionMatchesMeasurement) {
  struct Measured {
    GpuProduct model;
    DType dtype;
    int64_t batch, length;
    double sequences;
  };
  for (const Measured& run : {Measured{GpuProduct::kA100With40g, DType::kF32, 8, 512, 41},
                              Measured{GpuProduct::kA100With40g, DType::kF32, 54, 128, 234},
                              Measured{GpuProduct::kA100With80g, DType::kF32, 128, 128, 317},
                              Measured{GpuProduct::kA100With40g, DType::kF16, 16, 512, 78},
                              Measured{GpuProduct::kA100With40g, DType::kF16, 64, 128, 415},
                              Measured{GpuProduct::kA100With80g, DType::kF16, 256, 128, 580}}) {
    const backends::testing::GptStep step({.batch = run.batch,
                                           .length = run.length,
                                           .width = 1024,
                                           .heads = 16,
                                           .layers = 24,
                                           .vocabulary = 30522,
                                           .product_dtype = run.dtype});
    const Plan plan = build_plan(step.program(), {.fusion = Fusion::kFlat});
    Picoseconds predicted = 0;
    for (const Launch& launch : launches_of(plan, {.model = run.model, .allow_tf32 = true}))
      predicted += launch.duration;
    const double ratio = to_seconds(predicted) * run.sequences / static_cast<double>(run.batch);
    EXPECT_GT(ratio, run.dtype == DType::kF32 ? 0.75 : 0.9) << run.batch << " of " << run.length;
    EXPECT_LT(ratio, 1.1) << run.batch << " of " << run.length;
  }
}

}  // namespace
}  // namespace runner::backends::gpu
