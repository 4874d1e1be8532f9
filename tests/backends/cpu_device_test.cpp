// The CPU device: the same bits with any number of threads, no allocations in steady state, lifetime of outputs.
#include "backends/exec/cpu_device.h"

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/support/allocations.h"
#include "tests/support/pattern.h"
#include "tests/support/sanitizers.h"

namespace runner::backends::testing {
namespace {

Results results_on(int threads, const Program& program, const Inputs& inputs) {
  const auto device = make_cpu_device(threads);
  return run_program(*device, program, inputs, 3);
}

void expect_same_bits_on_any_threads(const Program& program, const Inputs& inputs) {
  const Results one = results_on(1, program, inputs);
  EXPECT_EQ(results_on(2, program, inputs), one);
  EXPECT_EQ(results_on(3, program, inputs), one);
}

TEST(CpuDevice, ThreadsDoNotChangeTheBitsOfAnMlp) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const MlpStep step(
        {.batch = 96, .widths = {200, 300, 10}, .layer_norm = true, .dropout = 0.2, .product_dtype = dtype});
    expect_same_bits_on_any_threads(step.program(), step.inputs(1));
  }
}

TEST(CpuDevice, ThreadsDoNotChangeTheBitsOfAGpt) {
  const GptStep step({.batch = 2, .length = 32, .width = 64, .heads = 4, .layers = 2, .vocabulary = 150});
  expect_same_bits_on_any_threads(step.program(), step.inputs(1));
}

// Runs steps after a warm-up and counts calls of operator new.
int64_t allocations_of_steps(const Program& program, const Inputs& inputs, int threads) {
  const auto device = make_cpu_device(threads);
  Session session(*device, program, inputs);
  for (int warm_up = 0; warm_up < 2; ++warm_up) session.submit();
  const int64_t before = support::allocations();
  for (int i = 0; i < 10; ++i) session.submit();
  return support::allocations() - before;
}

TEST(CpuDevice, StepsAllocateNothingInSteadyState) {
  const MlpStep mlp({.batch = 64, .widths = {100, 200, 10}, .layer_norm = true, .dropout = 0.2});
  const GptStep gpt({.batch = 2, .length = 16, .width = 32, .heads = 4, .layers = 2, .vocabulary = 50});
  for (const int threads : {1, 2}) {
    EXPECT_EQ(allocations_of_steps(mlp.program(), mlp.inputs(1), threads), 0);
    EXPECT_EQ(allocations_of_steps(gpt.program(), gpt.inputs(1), threads), 0);
  }
}

// y = x · value over (n); x is a state, updated to y.
Program scaled(int64_t n, double value) {
  Program program;
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{n}})};
  const Value y = ops::mul(x, value);
  program.output("y", y.id);
  program.output("x", y.id, 0);
  return program;
}

TEST(CpuDevice, OutputsStayValidUntilTheNextSubmission) {
  const auto device = make_cpu_device(1);
  auto small = std::make_unique<Session>(
      *device, scaled(2, 3),
      Inputs{HostTensor({DType::kF32, Shape{2}}, [](int64_t i) { return static_cast<double>(i + 1); })});
  small->submit();
  // Other work does not affect them: compiling a larger executable, and writing to another buffer.
  const auto large = device->compile(scaled(100'000, 2));
  const auto buffer = device->allocate(1 << 20);
  const std::vector<std::byte> ones(8, std::byte{1});
  device->write(*buffer, 100, ones);
  EXPECT_EQ(small->output(0).values(), (std::vector<double>{3, 6}));
  EXPECT_EQ(small->results().states[0].values(), (std::vector<double>{3, 6}));
  small->submit();
  EXPECT_EQ(small->output(0).values(), (std::vector<double>{9, 18}));
}

// Two states are written one after the other. Each event sees the final contents of its state, and those of the other
// as they are at that moment.
TEST(CpuDevice, CallsEventsWhenStatesHaveTheirNewContents) {
  Program program;
  const TensorType type{DType::kF32, Shape{4}};
  const Value first{&program, program.input(InputKind::kState, "first", type)};
  const Value second{&program, program.input(InputKind::kState, "second", type)};
  const Value new_first = ops::add(first, 1.0);
  const Value sum = ops::sum(new_first, std::array<int64_t, 1>{0}, true);  // ends the group of element-wise nodes
  program.output("first", new_first.id, 0);
  program.output("second", ops::add(second, sum).id, 1);
  const auto device = make_cpu_device(1);
  const auto states = {device->allocate(type.bytes()), device->allocate(type.bytes())};
  std::vector<Buffer*> buffers;
  for (const auto& state : states) buffers.push_back(state.get());
  class Seen final : public CalledEvent {
   public:
    Seen(const Device& device, const std::vector<Buffer*>& buffers) : device_(device), buffers_(buffers) {}
    void record() noexcept override {
      for (const Buffer* const buffer : buffers_)
        values.push_back(*reinterpret_cast<const float*>(device_.view(*buffer).data()));
    }
    std::vector<float> values;

   private:
    const Device& device_;
    const std::vector<Buffer*>& buffers_;
  };
  ASSERT_TRUE(device->calls_events());
  Seen of_first(*device, buffers), of_second(*device, buffers), of_all(*device, buffers);
  const Signal signals[] = {{&of_all}, {&of_second, {1, 0, 16}}, {&of_first, {0, 0, 16}}};
  const auto step = device->compile(program);
  for (int i = 0; i < 2; ++i)
    device->submit(*step, {.states = buffers, .batch = {}, .scalars = {}, .signals = signals});
  EXPECT_EQ(of_first.values, (std::vector<float>{1, 0, 2, 4}));
  EXPECT_EQ(of_second.values, (std::vector<float>{1, 4, 2, 12}));
  EXPECT_EQ(of_all.values, of_second.values);
}

TEST(CpuDevice, MemoryIsZeroedAndMayBeEmpty) {
  const auto device = make_cpu_device(1);
  const auto buffer = device->allocate(100);
  std::vector<std::byte> bytes(100, std::byte{1});
  device->read(*buffer, 0, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(100));
  const auto empty = device->allocate(0);
  EXPECT_EQ(empty->bytes(), 0u);
  device->write(*empty, 0, {});
  device->read(*empty, 0, {});
  EXPECT_TRUE(run_program(*device, scaled(0, 2), {HostTensor({DType::kF32, Shape{0}})}).outputs[0].bytes.empty());
}

TEST(CpuDevice, ReportsHowMuchMemoryIsMissing) {
  const auto device = make_cpu_device(1);
  try {
    device->allocate(size_t{1} << 60);
    FAIL() << "no error";
  } catch (const Error& error) {
    const support::Pattern pattern(
        R"(out of memory: tensors need 1073741824\.0 GiB, but this machine has \d+\.\d GiB free; use a smaller model or )"
        R"(data\.batch_size)");
    EXPECT_TRUE(pattern.matches(error.what())) << error.what();
  }
}

// The system overcommits memory and kills the process that touches too much.
TEST(CpuDevice, RefusesMoreMemoryThanAvailable) {
  const size_t available = available_memory();
  ASSERT_LT(available, size_t{1} << 50);
  EXPECT_THROW(make_cpu_device(1)->allocate(available + (size_t{256} << 20)), Error);
}

// Peak resident set size since it was last reset.
int64_t peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (int64_t kib = 0; word == "VmHWM:" && status >> kib) return kib;
  return -1;
}

TEST(CpuDevice, AGrowingArenaReplacesTheOldOne) {
  constexpr int64_t kFloats = 16 << 20, kKib = kFloats * 4 / 1024;
  const auto device = make_cpu_device(1);
  const auto state = device->allocate(kFloats * 5);
  Buffer* const states[] = {state.get()};
  const auto run = [&](int64_t floats) {
    const auto executable = device->compile(scaled(floats, 2));
    device->submit(*executable, {.states = states, .batch = {}, .scalars = {}});
  };
  run(kFloats);
  std::ofstream("/proc/self/clear_refs") << 5;
  const int64_t before = peak_resident_kib();
  run(kFloats / 4 * 5);
  EXPECT_EQ(device->temporary_bytes() / 1024 / kKib, 1u);
  if (support::kSanitized) return;  // a sanitizer uses memory of its own
  EXPECT_LT(peak_resident_kib() - before, kKib / 2);
}

TEST(CpuDevice, ScalarsTakeTheDtypeOfTheirInput) {
  Program program;
  Inputs inputs;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kI32, DType::kI64, DType::kBool}) {
    const Value x{&program, program.input(InputKind::kScalar, "x", {dtype, {}})};
    program.output("y", ops::cast(x, DType::kF64).id);
    inputs.emplace_back(TensorType{DType::kF64, {}}, [](int64_t) { return 1.7; });
  }
  const auto device = make_cpu_device(1);
  const std::vector<HostTensor> outputs = run_program(*device, program, inputs).outputs;
  const double expected[] = {static_cast<double>(1.7f), 1.7, 1.703125, 1, 1, 1};
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i][0], expected[i]);
}

TEST(CpuDevice, AConcatMayHaveAnyNumberOfParts) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{2}})};
  std::vector<Value> parts(1000, x);
  program.output("y", ops::concat(parts, 0).id);
  const auto device = make_cpu_device(1);
  const HostTensor two({DType::kF32, Shape{2}}, [](int64_t i) { return static_cast<double>(i); });
  const HostTensor y = run_program(*device, program, {two}).outputs[0];
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 2);
}

}  // namespace
}  // namespace runner::backends::testing
