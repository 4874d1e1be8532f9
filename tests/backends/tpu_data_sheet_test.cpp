// Table of generations, against published figures and error messages.
#include "backends/tpu/tpu_data_sheet.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe_check.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/paths.h"

namespace runner::backends::tpu {
namespace {

TEST(TpuGeneration, IsFoundByItsName) {
  for (const char* name : {"v2", "v3", "v4", "v5e", "v5p", "v6e"}) {
    const auto generation = generation_of(name);
    ASSERT_TRUE(generation) << name;
    EXPECT_EQ(row_of(*generation).name, name);
  }
  EXPECT_FALSE(generation_of("v1"));
  EXPECT_FALSE(generation_of(""));
}

// From messages like "Used 9.08G of 7.48G hbm": two decimals, units of 2^30 bytes.
TEST(TpuGeneration, LimitsMatchXlaMessages) {
  const std::pair<const char*, double> limits[] = {{"v2", 7.48},   {"v3", 15.48},  {"v4", 30.75},
                                                   {"v5e", 15.75}, {"v5p", 95.74}, {"v6e", 31.25}};
  for (const auto& [name, limit] : limits) {
    const double usable = static_cast<double>(row_of(*generation_of(name)).usable_bytes()) / (1 << 30);
    EXPECT_EQ(std::round(usable * 100), std::round(limit * 100)) << name;
  }
}

// Two operations per cell of the matrix units and cycle; only v6e is published differently.
TEST(TpuGeneration, PeaksFollowFromTheMatrixUnits) {
  struct Chip {
    const char* name;
    int units;  // per chip
    double published;
  };
  for (const Chip& chip : {Chip{"v2", 2, 46e12}, Chip{"v3", 4, 123e12}, Chip{"v4", 8, 275e12}, Chip{"v5e", 4, 197e12},
                           Chip{"v5p", 8, 459e12}}) {
    const TpuDataSheet& row = row_of(*generation_of(chip.name));
    const double of_chip = row.matrix_flops * row.devices_per_chip;
    EXPECT_EQ(of_chip, chip.published) << chip.name;
    EXPECT_NEAR(2.0 * 128 * 128 * chip.units * row.clock_hz, of_chip, 0.01 * of_chip) << chip.name;
  }
}

// A v3-8: four chips, eight devices, 492 TFLOP/s, 128 GiB, 3.6 TB/s.
TEST(TpuGeneration, BoardOfEightDevices) {
  const TpuDataSheet& v3 = row_of(Generation::kV3);
  EXPECT_EQ(schema::devices_on_board(schema::TpuGeneration::kV3), 8);
  EXPECT_EQ(schema::devices_on_board(schema::TpuGeneration::kV3) / v3.devices_per_chip, 4);
  EXPECT_DOUBLE_EQ(8 * v3.matrix_flops, 492e12);
  EXPECT_EQ(8 * v3.hbm_bytes, int64_t{128} << 30);
  EXPECT_DOUBLE_EQ(8 * v3.hbm_rate, 3.6e12);
}

// A host without a number of processes trains with all devices of its board.
TEST(TpuGeneration, DefaultNumberOfProcessesIsThatOfABoard) {
  for (const schema::Choice& choice : schema::find_fields("tpu.generation")[0].choices) {
    const std::vector<std::string> settings = {fmt::format("tpu.generation={}", choice.name)};
    const schema::ReadResult recipe = schema::read_recipe_text(R"(schema_version: 1
backend: tpu
model: {type: linear}
data: {train: {format: synthetic, samples: 20, features: [8], classes: 3}, batch_size: 10}
optimizer: {type: sgd}
train: {epochs: 1}
)",
                                                               "r.yaml", settings);
    EXPECT_EQ(recipe.recipe.num_processes, schema::devices_on_board(recipe.recipe.tpu.generation)) << choice.name;
  }
}

// 8 × 128 lanes × 4 units × 1.75 GHz × 2 cores of a v5p.
TEST(TpuGeneration, VectorUnits) {
  EXPECT_DOUBLE_EQ(row_of(Generation::kV5p).vector_flops(), 14.336e12);
  EXPECT_DOUBLE_EQ(row_of(Generation::kV3).vector_flops(), 1.92512e12);
}

TEST(TpuGeneration, MatchesTheDocumentation) {
  std::ifstream file(support::source_path("docs/tpu-model.md"));
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (int i = 0; i < kGenerationCount; ++i) {
    const TpuDataSheet& row = row_of(static_cast<Generation>(i));
    const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    const std::string wanted = fmt::format(
        "\n| {} | {} | {} | {} | {} | {} | {:.2f} | {} | {} | {} | {} | {} |\n", row.name, row.matrix_flops / 1e12,
        row.matrix_tile, kVectorLanes * row.vector_alus * row.cores, row.clock_hz / 1e9, gib(row.hbm_bytes),
        gib(row.usable_bytes()), row.hbm_rate / 1e9, row.link_rate / 1e9, row.host_rate / 1e9, row.devices_per_chip,
        schema::devices_on_board(static_cast<schema::TpuGeneration>(i)));
    EXPECT_NE(page.find(wanted), std::string::npos) << wanted;
  }
}

TEST(TpuDataSheet, TableMatchesTheRecipeField) {
  const std::span<const schema::Field> fields = schema::find_fields("tpu.generation");
  ASSERT_EQ(fields.size(), 1U);
  ASSERT_EQ(fields[0].choices.size(), static_cast<size_t>(kGenerationCount));
  for (size_t i = 0; i < fields[0].choices.size(); ++i)
    EXPECT_EQ(row_of(static_cast<Generation>(i)).name, fields[0].choices[i].name);
}

}  // namespace
}  // namespace runner::backends::tpu
