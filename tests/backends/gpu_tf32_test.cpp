// TF32 products, against operands rounded by their bits.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/gpu/gpu_device.h"
#include "backends/gpu/tf32.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::HostTensor;
using backends::testing::run_program;

// Rounds by bits: adds half of the truncated part, minus one bit if the last kept bit is even.
float tf32_of(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

// Values around each border between two TF32 numbers, for some exponents, and special values.
std::vector<float> floats() {
  std::vector<float> all = {0.0f,
                            -0.0f,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (const uint32_t exponent : {1u, 64u, 127u, 200u, 254u})
    for (uint32_t mantissa = 0; mantissa < 1024; ++mantissa)
      for (const uint32_t rest : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
        const uint32_t bits = exponent << 23 | mantissa << 13 | rest;
        all.push_back(std::bit_cast<float>(bits));
        all.push_back(std::bit_cast<float>(bits | 0x80000000u));
      }
  return all;
}

TEST(GpuTf32, RoundsToNearestEven) {
  const std::vector<float> values = floats();
  Program program;
  const TensorType type{DType::kF32, Shape{std::ssize(values)}};
  program.output("", rounded_to_tf32({&program, program.input(InputKind::kBatch, "x", type)}).id);
  const auto device = make_cpu_device(1);
  const auto results = run_program(
      *device, program, {HostTensor(type, [&](int64_t i) { return double{values[static_cast<size_t>(i)]}; })});
  for (size_t i = 0; i < values.size(); ++i) {
    const float want = tf32_of(values[i]), got = static_cast<float>(results.outputs[0][static_cast<int64_t>(i)]);
    const bool are_equal = std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want);
    EXPECT_TRUE(are_equal || (std::isnan(got) && std::isnan(want))) << values[i];
  }
}

Program product() {
  Program program;
  const auto input = [&](int64_t rows, int64_t columns) -> Value {
    return {&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{rows, columns}})};
  };
  const Value a = input(5, 70), b = input(70, 9);
  program.output("", ops::matmul(a, b).id);
  return program;
}

// The exact product of the rounded operands, rounded once, must be almost equal.
TEST(GpuTf32, ProductsReadRoundedOperands) {
  const Program program = product();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  backends::testing::Inputs inputs, rounded;
  for (const Input& input : program.inputs()) {
    inputs.emplace_back(program.type(input.value), [&](int64_t) { return double{normal(random)}; });
    const HostTensor& exact = inputs.back();
    rounded.emplace_back(exact.type, [&](int64_t i) { return double{tf32_of(static_cast<float>(exact[i]))}; });
  }
  const auto cpu = make_cpu_device(1);
  const auto on = [&](GpuProduct model, bool allowed) {
    return run_program(*make_gpu_device({.model = model, .allow_tf32 = allowed}), program, inputs);
  };
  EXPECT_EQ(on(GpuProduct::kA100With40g, true), run_program(*cpu, program, rounded));
  EXPECT_EQ(on(GpuProduct::kA100With40g, false), run_program(*cpu, program, inputs));
  EXPECT_EQ(on(GpuProduct::kT4, true), run_program(*cpu, program, inputs)) << "a T4 has no tf32 units";
}

}  // namespace
}  // namespace runner::backends::gpu::testing
