// The backend contract on asynchronous devices: results bit-identical to the CPU device, errors thrown later with the
// line of their op, and memory that lives as long as the device needs it.

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/gpu/gpu_device.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/support/thrown_text.h"

namespace runner::backends::testing {
namespace {

Results train(Device& device, const MlpOptions& options, int steps) {
  const MlpStep step(options);
  Inputs inputs = step.inputs(3);
  Session session(device, step.program(), inputs);
  for (int i = 1; i <= steps; ++i) {
    MlpStep::set_step(inputs, i);
    for (const size_t input : {kKey, kKeep, kStepSize, kRoot}) session.set_input(input, inputs[input]);
    device.wait(session.submit());  // the batch must not change before this returns
  }
  return session.results();
}

struct Kind {
  const char* name;
  std::unique_ptr<Device> (*make)();
  const char* note;  // note on its errors
};

class AsynchronousDevice : public ::testing::TestWithParam<Kind> {
 protected:
  const std::unique_ptr<Device> device_ = GetParam().make();
  const std::string note_ = GetParam().note;
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, AsynchronousDevice,
    ::testing::Values(Kind{"OpByOp", []() -> std::unique_ptr<Device> { return std::make_unique<OpByOpDevice>(); }, ""},
                      Kind{"Gpu", []() -> std::unique_ptr<Device> { return gpu::make_gpu_device({.index = 3}); },
                           "\n  note: on gpu 3"},
                      Kind{"GpuOnTheHostsThread",
                           []() -> std::unique_ptr<Device> {
                             return gpu::make_gpu_device({.threads = 2, .own_thread = false, .spins = false});
                           },
                           "\n  note: on gpu 0"}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(AsynchronousDevice, TrainsBitIdenticallyToCpu) {
  const MlpOptions cases[] = {{},
                              {.batch = 5, .widths = {7, 12, 9, 3}, .layer_norm = true, .dropout = 0.25},
                              {.batch = 16, .widths = {10, 33, 5}, .product_dtype = DType::kBf16}};
  const auto cpu = make_cpu_device(1);
  for (const MlpOptions& options : cases) EXPECT_EQ(train(*cpu, options, 5), train(*device_, options, 5));
}

// y = table[ids], with a source line.
struct Lookup {
  Program program;
  Inputs inputs;

  explicit Lookup(double id) {
    program.set_mark({"lookup.lua", 7, 0});
    const Value table{&program, program.input(InputKind::kState, "table", {DType::kF32, Shape{3, 2}})};
    const Value ids{&program, program.input(InputKind::kBatch, "ids", {DType::kI64, Shape{2}})};
    program.set_mark({"lookup.lua", 8, 0});
    const Value rows = ops::embedding(table, ids);
    program.output("rows", rows.id);
    program.output("table", ops::add(table, 1.0).id, 0);
    inputs = {HostTensor(table.type(), [](int64_t i) { return static_cast<double>(i); }),
              HostTensor(ids.type(), [id](int64_t) { return id; })};
  }
};

constexpr const char* kOutOfRange = "lookup.lua:8: embedding: index 5 at position 0 is out of range, size 3";

TEST_P(AsynchronousDevice, ThrowsErrorsFromTheNextCallThatWaits) {
  Lookup bad(5), good(1);
  for (int way = 0; way < 4; ++way) {
    Session session(*device_, bad.program, bad.inputs);
    const Ticket ticket = session.submit();  // returns although the op will fail
    Session later(*device_, good.program, good.inputs);
    later.submit();
    EXPECT_EQ(support::thrown_text([&] {
                if (way == 0) device_->synchronize();
                if (way == 1) device_->wait(ticket);
                if (way == 2) session.output(0);
                if (way == 3) session.results();
              }),
              kOutOfRange + note_);
    device_->synchronize();  // thrown once; the device stays usable
    Session after(*device_, good.program, good.inputs);
    after.submit();
    EXPECT_EQ(after.output(0).values(), (std::vector<double>{2, 3, 2, 3}));
  }
}

TEST(AsynchronousDevices, ReportTheSameLinesAsCpu) {
  const auto device = make_cpu_device(1);
  Lookup bad(5);
  EXPECT_EQ(support::thrown_text([&] { Session(*device, bad.program, bad.inputs).submit(); }), kOutOfRange);
}

TEST_P(AsynchronousDevice, ErrorsHaveLinesOfTheCurrentRecording) {
  Lookup recorded(5);
  Program moved;  // the same Program from other lines
  moved.set_mark({"other.lua", 1, 0});
  const Value table{&moved, moved.input(InputKind::kState, "table", {DType::kF32, Shape{3, 2}})};
  const Value ids{&moved, moved.input(InputKind::kBatch, "ids", {DType::kI64, Shape{2}})};
  moved.set_mark({"other.lua", 2, 0});
  moved.output("rows", ops::embedding(table, ids).id);
  moved.set_mark({"other.lua", 3, 0});
  moved.output("table", ops::add(table, 1.0).id, 0);
  ASSERT_TRUE(moved.same_structure(recorded.program));

  const auto cpu = make_cpu_device(1);
  for (Device* device : {device_.get(), cpu.get()}) {
    const auto executable = device->compile(recorded.program);
    const auto state = device->allocate(recorded.inputs[0].bytes.size());
    Buffer* states[] = {state.get()};
    const std::byte* batch[] = {recorded.inputs[1].bytes.data()};
    EXPECT_EQ(
        support::thrown_text([&] {
          device->submit(*executable, {.states = states, .batch = batch, .scalars = {}, .lines = &moved.lines()});
          device->synchronize();
        }),
        "other.lua:2: embedding: index 5 at position 0 is out of range, size 3" + (device == cpu.get() ? "" : note_));
  }
}

TEST_P(AsynchronousDevice, SubmissionsTakeEffectInOrder) {
  Lookup good(1);
  Session session(*device_, good.program, good.inputs);
  Ticket last = 0;
  for (int i = 0; i < 50; ++i) {
    const Ticket ticket = session.submit();
    EXPECT_GT(ticket, last);
    last = ticket;
  }
  const Results results = session.results();
  EXPECT_EQ(results.outputs[0].values(), (std::vector<double>{51, 52, 51, 52}));
  EXPECT_EQ(results.states[0].values(), (std::vector<double>{50, 51, 52, 53, 54, 55}));
}

TEST_P(AsynchronousDevice, KeepsBuffersAliveWhileWorkIsQueued) {
  Program program;
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{1000}})};
  program.output("x", ops::exp(x).id, 0);
  const auto executable = device_->compile(program);
  for (int i = 0; i < 20; ++i) {
    const auto state = device_->allocate(4000);
    Buffer* states[] = {state.get()};
    device_->submit(*executable, {.states = states, .batch = {}, .scalars = {}});
  }
  device_->synchronize();
}

}  // namespace
}  // namespace runner::backends::testing
