// Table of GPU models, against published figures.
#include "backends/gpu/gpu_data_sheet.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/recipe/field_table.h"
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

}  // namespace
}  // namespace runner::backends::gpu
