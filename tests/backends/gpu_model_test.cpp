// Table of GPU models and predicted launch durations, against published figures and values worked out by hand.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/device_model/ring_all_reduce.h"
#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/launch.h"
#include "backends/ir/ops.h"
#include "schema/recipe/field_table.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/support/paths.h"

namespace runner::backends::gpu {
namespace {

const GpuDataSheet& gpu(std::string_view name) {
  int model = 0;
  while (row_of(static_cast<GpuProduct>(model)).name != name) ++model;
  return row_of(static_cast<GpuProduct>(model));
}

TEST(GpuDataSheet, TableMatchesTheRecipeField) {
  const std::span<const schema::Field> fields = schema::find_fields("gpu.model");
  ASSERT_EQ(fields.size(), 1U);
  ASSERT_EQ(fields[0].choices.size(), static_cast<size_t>(kGpuProductCount));
  for (size_t i = 0; i < fields[0].choices.size(); ++i) {
    const std::string_view name = fields[0].choices[i].name;
    EXPECT_EQ(row_of(static_cast<GpuProduct>(i)).name, name);
  }
}

// gpu.allow_tf32 is an error for a model without TF32.
TEST(GpuDataSheet, RecipesAllowTf32WhereTheModelHasIt) {
  const std::span<const schema::Field> fields = schema::find_fields("gpu.allow_tf32");
  ASSERT_EQ(fields.size(), 1U);
  ASSERT_EQ(fields[0].when.size(), 1U);
  const std::span<const std::string_view> allowed = fields[0].when[0].values;
  for (int i = 0; i < kGpuProductCount; ++i) {
    const GpuDataSheet& row = row_of(static_cast<GpuProduct>(i));
    EXPECT_EQ(std::ranges::find(allowed, row.name) != allowed.end(), row.product_flops.tf32 > 0) << row.name;
  }
}

// Two operations per multiplier and cycle: of the vector units, and of the tensor cores for f16.
TEST(GpuDataSheet, PeaksFollowFromClocksAndUnits) {
  struct Chip {
    const char* name;
    int multiprocessors, vector_lanes, tensor_lanes;
    double vector_ghz, tensor_ghz;
  };
  for (const Chip& chip : {Chip{"a100-40g", 108, 64, 1024, 1.41, 1.41}, Chip{"a100-80g", 108, 64, 1024, 1.41, 1.41},
                           Chip{"h100", 132, 128, 2048, 1.98, 1.83}, Chip{"h200", 132, 128, 2048, 1.98, 1.83},
                           Chip{"v100", 80, 64, 512, 1.53, 1.53}, Chip{"rtx3090", 82, 128, 256, 1.695, 1.695},
                           Chip{"l4", 58, 128, 512, 2.04, 2.04}, Chip{"t4", 40, 64, 512, 1.59, 1.59},
                           Chip{"rtx4090", 128, 128, 256, 2.52, 2.52}}) {
    const FlopRates& rates = gpu(chip.name).product_flops;
    const double f32 = 2e9 * chip.multiprocessors * chip.vector_lanes * chip.vector_ghz;
    const double f16 = 2e9 * chip.multiprocessors * chip.tensor_lanes * chip.tensor_ghz;
    EXPECT_NEAR(rates.f32, f32, 0.01 * f32) << chip.name;
    EXPECT_NEAR(rates.f16, f16, 0.01 * f16) << chip.name;
    // Tensor cores that support bf16 also support TF32, at half the rate.
    EXPECT_EQ(rates.bf16, rates.bf16 == 0 ? 0 : rates.f16) << chip.name;
    EXPECT_NEAR(rates.tf32, rates.bf16 / 2, 0.01 * rates.f16) << chip.name;
  }
}

// Bus width times the rate per wire.
TEST(GpuDataSheet, MemoryRatesFollowFromTheBus) {
  struct Bus {
    const char* name;
    int wires;
    double gigabits;
  };
  for (const Bus& bus : {Bus{"a100-40g", 5120, 2.43}, Bus{"a100-80g", 5120, 3.186}, Bus{"h100", 5120, 5.238},
                         Bus{"h200", 6144, 6.25}, Bus{"v100", 4096, 1.758}, Bus{"rtx3090", 384, 19.5},
                         Bus{"l4", 192, 12.5}, Bus{"t4", 256, 10}, Bus{"rtx4090", 384, 21}})
    EXPECT_NEAR(gpu(bus.name).memory_rate, bus.wires * bus.gigabits * 1e9 / 8, 0.005 * gpu(bus.name).memory_rate)
        << bus.name;
}

// From messages like "GPU 0 has a total capacity of 39.49 GiB".
TEST(GpuDataSheet, CapacitiesMatchPyTorchMessages) {
  const std::pair<const char*, double> totals[] = {{"a100-40g", 39.49}, {"a100-80g", 79.15}, {"h100", 79.11},
                                                   {"h200", 139.80},    {"v100", 31.74},     {"rtx3090", 23.69},
                                                   {"l4", 22.03},       {"t4", 14.56},       {"rtx4090", 23.64}};
  for (const auto& [name, total] : totals) {
    const double gib = static_cast<double>(gpu(name).capacity_bytes) / (1 << 30);
    EXPECT_EQ(std::round(gib * 100), std::round(total * 100)) << name;
    EXPECT_LT(gpu(name).capacity_bytes, gpu(name).memory_bytes);
  }
}

TEST(GpuDataSheet, ProductsRunAtTheRateOfTheirOperands) {
  const GpuDataSheet &a100 = gpu("a100-40g"), &t4 = gpu("t4");
  EXPECT_EQ(product_flops(a100, DType::kF32, false), 19.5e12);
  EXPECT_EQ(product_flops(a100, DType::kF32, true), 156e12);
  EXPECT_EQ(product_flops(a100, DType::kF16, true), 312e12);
  EXPECT_EQ(product_flops(a100, DType::kBf16, false), 312e12);
  EXPECT_EQ(product_flops(a100, DType::kF64, true), 19.5e12);
  // Without units for TF32 and bf16, the f32 rate applies.
  EXPECT_EQ(product_flops(t4, DType::kF32, true), 8.1e12);
  EXPECT_EQ(product_flops(t4, DType::kBf16, false), 8.1e12);
  EXPECT_EQ(product_flops(t4, DType::kF16, false), 65e12);
}

TEST(GpuDataSheet, MatchesTheDocumentation) {
  std::ifstream file(support::source_path("docs/gpu-model.md"));
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto rate = [](double flops) { return flops == 0 ? "" : fmt::format("{}", flops / 1e12); };
  for (int i = 0; i < kGpuProductCount; ++i) {
    const GpuDataSheet& row = row_of(static_cast<GpuProduct>(i));
    const FlopRates& rates = row.product_flops;
    const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    const std::string wanted =
        fmt::format("\n| {} | {} | {:.2f} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", row.name,
                    gib(row.memory_bytes), gib(row.capacity_bytes), row.memory_rate / 1e9, rate(rates.f64),
                    rate(rates.f32), rate(rates.tf32), rate(rates.f16), rate(rates.bf16),
                    row.link == GpuLink::kNvlink ? "NVLink" : "PCIe", row.link_rate / 1e9, row.host_rate / 1e9);
    EXPECT_NE(page.find(wanted), std::string::npos) << wanted;
  }
}

// ---- launches ------------------------------------------------------------------------------------------------------

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
// sequences per second). NVIDIA's version fuses gelu with its bias, norms, and masks with softmax, which is most of the
// remaining work at half precision; one launch per op takes up to 1.2 times as long.
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
    EXPECT_GT(ratio, 0.85) << run.batch << " of " << run.length;
    EXPECT_LT(ratio, run.dtype == DType::kF32 ? 1.1 : 1.2) << run.batch << " of " << run.length;
  }
}

}  // namespace
}  // namespace runner::backends::gpu
