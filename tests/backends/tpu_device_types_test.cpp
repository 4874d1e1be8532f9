// Programs in the number types of an emulated TPU: worked examples, and two ways to compute the same.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/tpu/numerics.h"
#include "backends/tpu/range_check.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/backends/support/random_program.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

using tpu::Rounding;

// Runs a Program on a host with an emulated TPU's number types.
struct Typed {
  tpu::DeviceTypes types;
  Rounding rounding = Rounding::kPerOp;

  Results run(const Program& program, const Inputs& inputs, int times = 1) const {
    const auto host = make_cpu_device(1);
    return run_program(*host, tpu::with_device_types(program, types, rounding), inputs, times);
  }
};

// A Program on vectors (n), and its results on a device.
struct Numbers {
  Program program;
  Inputs inputs;

  Value input(InputKind kind, DType dtype, const std::vector<double>& values) {
    const TensorType type{dtype, Shape{std::ssize(values)}};
    inputs.emplace_back(type, std::span<const double>(values));
    return {&program, program.input(kind, "x", type)};
  }
  Value batch(const std::vector<double>& values, DType dtype = DType::kF32) {
    return input(InputKind::kBatch, dtype, values);
  }
  Value state(const std::vector<double>& values, DType dtype = DType::kF32) {
    return input(InputKind::kState, dtype, values);
  }
  void output(Value value, int32_t state = -1) { program.output("y", value.id, state); }
  // Values of the first output.
  std::vector<double> on(const Typed& typed) const { return typed.run(program, inputs).outputs[0].values(); }
};

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(TpuTypes, ARunningSumStallsInBf16) {
  Numbers numbers;
  numbers.output(ops::add(numbers.batch({4096, 256, 255}), numbers.batch({1, 1, 1})));
  EXPECT_EQ(numbers.on({tpu::kBf16Types}), (std::vector<double>{4096, 256, 256}));
  EXPECT_EQ(numbers.on({tpu::kFullTypes}), (std::vector<double>{4097, 257, 256}));
}

TEST(TpuTypes, TheLowestFloatBecomesMinusInfinity) {
  Numbers numbers;
  const Value x = numbers.batch({1, 2});
  numbers.output(ops::where(ops::gt(x, 1.5), x, ops::full_like(x, std::numeric_limits<float>::lowest())));
  EXPECT_EQ(numbers.on({tpu::kBf16Types}), (std::vector<double>{-kInf, 2}));
}

TEST(TpuTypes, BatchesAreConvertedOnUpload) {
  Numbers numbers;
  numbers.output(ops::mul(numbers.batch({1.00390625, 1.01171875, 3.4e38, 1e-39, -1e-39, 0.1}), 2.0));
  const std::vector<double> on_device = numbers.on({tpu::kBf16Types});
  EXPECT_EQ(on_device, (std::vector<double>{2, 2.03125, kInf, 0, -0.0, 0.2001953125}));
  EXPECT_TRUE(std::signbit(on_device[4]));
}

// This also holds for values read without computation: a hook's tensor literal, random numbers, a constant.
TEST(TpuTypes, ValuesReadUnchangedAreConvertedToo) {
  Numbers numbers;
  const Value x = numbers.batch({0.1, -3.4e38, -1e-40, 1});
  const std::vector<double> given = {0.10009765625, -kInf, -0.0, 1};
  const Value key = numbers.batch({7, 1}, DType::kI64);
  const Value random = ops::random_uniform(key, Shape{4}, 0);
  numbers.output(x);
  numbers.output(random);
  numbers.output(ops::mul(random, 1.0));
  numbers.output(ops::full_like(x, 0.1));
  numbers.output(ops::cast(ops::on_host(random), DType::kF64));
  numbers.output(ops::mul(ops::full_like(x, -1e-39), 0x1p100));
  for (const Rounding rounding : {Rounding::kPerOp, Rounding::kFused}) {
    const Results on_device = Typed{tpu::kBf16Types, rounding}.run(numbers.program, numbers.inputs);
    EXPECT_EQ(on_device.outputs[0].type.dtype, DType::kF32);
    EXPECT_EQ(on_device.outputs[0].values(), given);
    EXPECT_TRUE(std::signbit(on_device.outputs[0][2]));
    EXPECT_EQ(on_device.outputs[1].values(), on_device.outputs[2].values());
    EXPECT_EQ(on_device.outputs[3].values(), std::vector<double>(4, given[0]));
    EXPECT_EQ(on_device.outputs[4].values(), on_device.outputs[2].values());
    EXPECT_EQ(on_device.outputs[5].values(), std::vector<double>(4, 0));
  }
  const Results on_host = Typed{tpu::kFullTypes}.run(numbers.program, numbers.inputs);
  EXPECT_EQ(on_host.outputs[0][0], double{0.1F});
  EXPECT_NE(on_host.outputs[1].values(),
            Typed{tpu::kBf16Types}.run(numbers.program, numbers.inputs).outputs[1].values());
}

// An integer cast to a float is a user value, whatever follows.
TEST(TpuTypes, IntegersThatBecomeFloatsAreRounded) {
  Numbers numbers;
  const Value i = numbers.batch({299, 299, 299}, DType::kI64), f = ops::cast(i, DType::kF32);
  numbers.output(f);
  numbers.output(ops::reduce_max(f));
  numbers.output(ops::sum(f));
  numbers.output(ops::cast(ops::sum(i), DType::kF32));
  numbers.output(ops::mul(f, 1.0));
  numbers.output(ops::reduce_max(ops::cast(i, DType::kF64)));
  numbers.output(ops::cast(ops::lt(f, 300.0), DType::kF32));
  numbers.output(ops::cast(ops::on_host(ops::reduce_max(f)), DType::kF64));
  for (const Rounding rounding : {Rounding::kPerOp, Rounding::kFused}) {
    std::vector<double> first;
    for (const HostTensor& output : Typed{tpu::kBf16Types, rounding}.run(numbers.program, numbers.inputs).outputs)
      first.push_back(output[0]);
    EXPECT_EQ(first, (std::vector<double>{300, 300, 900, 896, 300, 300, 0, 300}));
  }
}

// A double becomes bf16, or f32 with downcast_bf16. A value that is read has the logical type.
TEST(TpuTypes, DoublesBecomeBf16OrF32) {
  Numbers numbers;
  const Value x = numbers.batch({1 + 0x1p-20, 1 + 0x1p-30}, DType::kF64);
  numbers.output(ops::mul(x, 3.0));
  EXPECT_EQ(numbers.on({tpu::kBf16Types}), (std::vector<double>{3, 3}));
  EXPECT_EQ(numbers.on({tpu::kDowncastBf16Types}), (std::vector<double>{float{3 + 3 * 0x1p-20f}, 3}));
  EXPECT_EQ(numbers.on({tpu::kFullTypes}), (std::vector<double>{3 + 3 * 0x1p-20, 3 + 3 * 0x1p-30}));
}

TEST(TpuTypes, StatesAreRoundedToDeviceTypes) {
  Numbers numbers;
  const Value weight = numbers.state({1, 0.3}), step = numbers.batch({0.001, 0.001});
  numbers.output(ops::sub(weight, step), 0);
  const Results results = Typed{tpu::kBf16Types}.run(numbers.program, numbers.inputs);
  EXPECT_EQ(results.states[0].type.dtype, DType::kF32);
  EXPECT_EQ(results.states[0].values(), (std::vector<double>{1, 0.298828125}));  // 0.30078125 − 0.00099945…
}

// 0.999 is 1 in bf16, and from 0.5 on the addend is less than half of the last place.
TEST(TpuTypes, AdamsSecondMomentNeverDecaysAndStalls) {
  Numbers numbers;
  const Value v = numbers.state({0}), g = numbers.batch({2});
  numbers.output(ops::add(ops::mul(v, 0.999), ops::mul(ops::mul(g, g), 1 - 0.999)), 0);
  const Typed device{tpu::kBf16Types};
  EXPECT_EQ(device.run(numbers.program, numbers.inputs, 3000).states[0][0], 0.5 * 4);
  numbers.inputs = {HostTensor({DType::kF32, Shape{1}}, [](int64_t) { return 2.0; }),
                    HostTensor({DType::kF32, Shape{1}}, [](int64_t) { return 0.0; })};
  EXPECT_EQ(device.run(numbers.program, numbers.inputs, 3000).states[0][0], 2.0);
}

// f64 states, values added to them, marked values and their operands are not rounded.
TEST(TpuTypes, BookkeepingIsNotRounded) {
  Numbers numbers;
  const Value state = numbers.state({4096}, DType::kF64), losses = numbers.batch({1.01171875, 300, 1});
  const Value counted = numbers.batch({301, 1, 1});
  const Value sum = ops::sum(ops::on_host(ops::mul(losses, 1.0)));
  const Value weight = ops::sum(ops::on_host(counted));
  numbers.output(ops::reshape(weight, Shape{1}));
  numbers.output(ops::add(state, ops::reshape(ops::cast(sum, DType::kF64), Shape{1})), 0);
  const Results results = Typed{tpu::kBf16Types}.run(numbers.program, numbers.inputs);
  EXPECT_EQ(results.outputs[0][0], 303);
  EXPECT_EQ(results.states[0][0], 4096 + 1.015625 + 300 + 1);
  Numbers counts;
  const Value clock = counts.state({4096}, DType::kF64), applied = counts.batch({257}, DType::kI64);
  counts.output(ops::add(clock, ops::cast(applied, DType::kF64)), 0);
  EXPECT_EQ(Typed{tpu::kBf16Types}.run(counts.program, counts.inputs).states[0][0], 4353);
}

// The factor of the user's gradients is bookkeeping: it becomes bf16 where the two meet.
TEST(TpuTypes, BookkeepingIsRoundedWhereUserOpsReadIt) {
  Numbers numbers;
  const Value count = numbers.state({100}, DType::kF64), gradient = numbers.batch({100});
  numbers.output(ops::mul(gradient, ops::cast(ops::div(1.0, count), DType::kF32)));
  const double hundredth = 0.010009765625;         // the bf16 next to 0.01
  EXPECT_EQ(numbers.on({tpu::kBf16Types})[0], 1);  // 100 × that = 1.0009765625
  numbers.inputs[1].set(0, 1);
  EXPECT_EQ(numbers.on({tpu::kBf16Types})[0], hundredth);
}

// A result read only by element-wise ops keeps its precision in a fusion and loses it when it is stored.
TEST(TpuTypes, FusedRoundingKeepsPrecisionBetweenElementWiseOps) {
  Numbers numbers;
  const Value x = numbers.batch({256}), y = numbers.batch({1});
  const Value sum = ops::add(x, y);
  numbers.output(ops::sub(sum, x));
  EXPECT_EQ(numbers.on({tpu::kBf16Types, Rounding::kPerOp})[0], 0);
  EXPECT_EQ(numbers.on({tpu::kBf16Types, Rounding::kFused})[0], 1);
  numbers.output(sum);
  EXPECT_EQ(numbers.on({tpu::kBf16Types, Rounding::kFused})[0], 0);
}

TEST(TpuTypes, ProductsAndReductionsRoundOnce) {
  Numbers numbers;
  const Value x = ops::reshape(numbers.batch({256, 1, 1, 256}), Shape{2, 2});
  numbers.output(ops::sum(ops::matmul(x, x), std::array<int64_t, 1>{1}));
  // 256² + 1 = 65537 and 512, rounded to eight bits; their sum 66048 rounded to 66048 = 258 · 256.
  EXPECT_EQ(numbers.on({tpu::kBf16Types}), (std::vector<double>{66048, 66048}));
}

TEST(TpuTypes, WarnsAboutConstantsThatOverflow) {
  Numbers numbers;
  numbers.program.set_mark({"hook.lua", 7, 0});
  const Value x = numbers.batch({1, 2});
  numbers.output(ops::maximum(x, ops::full_like(x, std::numeric_limits<float>::lowest())));
  numbers.output(ops::maximum(x, ops::full_like(x, -1e38)));
  numbers.output(ops::maximum(x, ops::full_like(x, -kInf)));
  EXPECT_EQ(tpu::range_warnings(numbers.program, tpu::kBf16Types),
            std::vector<std::string>{"hook.lua:7: the constant -3.40282e+38 becomes -inf in the TPU's bf16; use a mask "
                                     "of -1e+30, which stays finite"});
  EXPECT_EQ(tpu::range_warnings(numbers.program, tpu::kFullTypes), std::vector<std::string>{});
}

TEST(TpuTypes, WarnsAboutDoubles) {
  Numbers numbers;
  numbers.program.set_mark({"hook.lua", 7, 0});
  const Value x = ops::cast(numbers.batch({1, 2}), DType::kF64);
  numbers.output(ops::mul(x, x));
  EXPECT_EQ(
      tpu::range_warnings(numbers.program, tpu::kFullTypes),
      std::vector<std::string>{"hook.lua:7: a TPU computes f64 in software, many times slower than f32; cast to f32, "
                               "or use mixed_precision: bf16 with downcast_bf16: true, which converts it to f32"});
  EXPECT_EQ(tpu::range_warnings(numbers.program, tpu::kDowncastBf16Types), std::vector<std::string>{});
  Numbers bookkeeping;
  bookkeeping.output(ops::cast(ops::on_host(bookkeeping.batch({1, 2})), DType::kF64));
  EXPECT_EQ(tpu::range_warnings(bookkeeping.program, tpu::kFullTypes), std::vector<std::string>{});
  Numbers folded;  // an optimizer's 1 - beta, which XLA computes when it compiles
  const Value beta{&folded.program, folded.program.constant(0.9, {DType::kF64, {}})};
  folded.output(ops::mul(folded.batch({1, 2}), ops::cast(ops::sub(1.0, beta), DType::kF32)));
  EXPECT_EQ(tpu::range_warnings(folded.program, tpu::kFullTypes), std::vector<std::string>{});
}

// Rewritten Programs are well-formed and equal their ops run one by one; so do Programs derived from them.
TEST(TpuTypes, RandomProgramsEqualTheirOpsRunOneByOne) {
  const auto host = make_cpu_device(1);
  OpByOpDevice one_by_one;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    const RandomProgram random(seed, 24);
    for (const tpu::DeviceTypes& types : {tpu::kBf16Types, tpu::kDowncastBf16Types})
      for (const Rounding rounding : {Rounding::kPerOp, Rounding::kFused}) {
        const Program typed = tpu::with_device_types(random.program, types, rounding);
        ASSERT_EQ(verify(typed), "") << "seed " << seed;
        const Program program = tpu::with_matmul_precision(typed, tpu::MatmulPrecision::kHigh);
        ASSERT_EQ(verify(program), "") << "seed " << seed;
        ASSERT_EQ(run_program(*host, program, random.inputs), run_program(one_by_one, program, random.inputs))
            << "seed " << seed;
      }
  }
}

}  // namespace
}  // namespace runner::backends::testing
