// Submissions in flight: what is handed over to the execution thread, when the host waits, and what happens to errors.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/tpu/submission_slot.h"
#include "backends/tpu/tpu_device_model.h"
#include "schema/base/error.h"
#include "tests/backends/support/inert_device.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::tpu::testing {
namespace {

using std::chrono::milliseconds;

// Runs the job that a test sets.
class FunctionDevice : public backends::testing::InertDevice {
 public:
  std::function<void(const Submission&)> job;

  Ticket submit(Executable&, const Submission& submission) override {
    job(submission);
    return 0;
  }
};

class SubmissionSlotTest : public ::testing::Test {
 protected:
  using Counts = SubmissionSlot::Counts;

  void begin(SubmissionSlot& slot, const Submission& submission = {}, Counts counts = Counts::kWhole,
             bool waits = false) {
    slot.begin(std::make_shared<backends::testing::InertExecutable>(), submission, counts, waits);
  }
  MetricSnapshot executions() const {
    for (const MetricSnapshot& metric : metrics_.snapshot().metrics)
      if (metric.name == "ExecuteTime") return metric;
    return {};
  }

  FunctionDevice host_;
  MetricsRegistry metrics_;
};

TEST_F(SubmissionSlotTest, RunsConcurrentlyOnACopyOfTheArguments) {
  std::atomic<bool> has_begun{false}, may_go{false};
  std::thread::id where;
  double seen = 0;
  host_.job = [&](const Submission& submission) {
    has_begun = true;
    while (!may_go.load()) std::this_thread::yield();
    where = std::this_thread::get_id();
    seen = submission.scalars[0];
  };
  SubmissionSlot slot(host_, metrics_, /*own_thread=*/true);
  std::vector<double> scalars{3};
  begin(slot, {.states = {}, .batch = {}, .scalars = scalars});  // returns although the job cannot complete yet
  scalars[0] = 4;
  while (!has_begun.load()) std::this_thread::sleep_for(milliseconds(1));  // otherwise the host would run it
  std::this_thread::sleep_for(milliseconds(20));
  std::thread release([&] {
    std::this_thread::sleep_for(milliseconds(5));
    may_go = true;
  });
  slot.lock();
  release.join();
  EXPECT_EQ(seen, 3);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_EQ(executions().count, 1);
  EXPECT_GE(executions().sum, 20'000'000);
  slot.count_lock_wait();
  slot.count_lock_wait();
  for (const MetricSnapshot& metric : metrics_.snapshot().metrics) {
    if (metric.name != "DeviceLockWait") continue;
    EXPECT_EQ(metric.count, 2);
    EXPECT_GE(metric.ring[0].value, 1'000'000) << "until the job has finished";
    EXPECT_EQ(metric.ring[1].value, 0) << "counted once";
  }
}

TEST_F(SubmissionSlotTest, RunsInTheCallerWithoutAThreadOrIfTheHostWaits) {
  std::thread::id where;
  host_.job = [&](const Submission&) { where = std::this_thread::get_id(); };
  SubmissionSlot alone(host_, metrics_, /*own_thread=*/false);
  begin(alone);
  EXPECT_EQ(where, std::this_thread::get_id());
  where = {};
  SubmissionSlot slot(host_, metrics_, /*own_thread=*/true);
  begin(slot, {}, Counts::kWhole, /*waits=*/true);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(executions().count, 2);
}

TEST_F(SubmissionSlotTest, ThrowsOnceFromTheNextWait) {
  bool fails = true;
  host_.job = [&](const Submission&) { RUN_CHECK(!fails, ErrorKind::kRun, "an op"); };
  for (const bool own_thread : {false, true}) {
    fails = true;
    SubmissionSlot slot(host_, metrics_, own_thread);
    if (own_thread) {
      begin(slot);
      slot.finish();
      EXPECT_THROW(slot.wait(), Error);
    } else {
      EXPECT_THROW(begin(slot), Error);
    }
    fails = false;
    slot.wait();
    begin(slot);
    slot.wait();
  }
  EXPECT_EQ(executions().count, 4) << "a failed execution counts too";
}

// Parts of a graph are one execution, which ends when all of them are done.
TEST_F(SubmissionSlotTest, CountsPartsAsOneExecution) {
  host_.job = [](const Submission&) { std::this_thread::sleep_for(milliseconds(2)); };
  for (const bool own_thread : {false, true}) {
    SubmissionSlot slot(host_, metrics_, own_thread);
    const int64_t before = executions().count;
    for (int graph = 0; graph < 2; ++graph) {
      for (int part = 0; part < 3; ++part) begin(slot, {}, Counts::kPart);
      slot.end_parts();
    }
    slot.finish();
    EXPECT_EQ(executions().count, before + 2);
    EXPECT_GE(executions().ring.back().value, 6'000'000);
    begin(slot, {}, Counts::kNothing);
    slot.finish();
    EXPECT_EQ(executions().count, before + 2);
  }
}

// Handing over gains nothing if the host does nothing meanwhile.
TEST_F(SubmissionSlotTest, RunsInTheCallerIfTheHostIsIdle) {
  int64_t here = 0;
  const std::thread::id host = std::this_thread::get_id();
  host_.job = [&](const Submission&) { here += std::this_thread::get_id() == host; };
  SubmissionSlot slot(host_, metrics_, /*own_thread=*/true);
  for (int i = 0; i < 1000; ++i) {
    begin(slot);
    slot.lock();
  }
  EXPECT_GT(here, 800);
}

// w ← w + x, repeated; returns the final contents of the device and its counters.
TEST(TpuSubmissionTest, ConcurrencyChangesNeitherBitsNorCounts) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{512}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{512}})};
  const Value rate{&program, program.input(InputKind::kScalar, "rate", {DType::kF32, {}})};
  const Value now = ops::add(w, ops::mul(ops::tanh(x), rate));
  program.output("w", now.id, 0);
  program.output("sum", ops::sum(now).id);
  const auto train = [&](const TpuOptions& options) {
    const auto device = make_tpu_device(options);
    const auto step = device->compile(program);
    const auto held = device->allocate(512 * sizeof(float));
    std::array<std::vector<float>, 2> batches{std::vector<float>(512), std::vector<float>(512)};
    Buffer* const states[] = {held.get()};
    std::vector<float> found(512);
    for (int64_t number = 1; number <= 200; ++number) {
      std::vector<float>& batch = batches[static_cast<size_t>(number % 2)];  // the other one may be in use
      for (size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<float>(i * static_cast<size_t>(number) % 7) / 8;
      const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(batch.data())};
      const double scalars[] = {1.0 / static_cast<double>(number)};
      device->submit(*step, {.states = states, .batch = inputs, .scalars = scalars}, {.step = number});
      if (number % 50 == 0) device->on_host_event(HostEvent::kStepMark);
      if (number % 20 == 0) std::this_thread::sleep_for(milliseconds(1));
    }
    device->read(*held, 0, std::as_writable_bytes(std::span(found)));
    const MetricsSnapshot metrics = model_of_tpu(*device).metrics();
    std::vector<int64_t> counts;
    for (const CounterSnapshot& counter : metrics.counters) counts.push_back(counter.value);
    for (const MetricSnapshot& metric : metrics.metrics)
      if (metric.name == "ExecuteTime" || metric.name == "CompileTime") counts.push_back(metric.count);
    return std::pair(found, counts);
  };
  const auto [weights, counts] = train({});
  for (const bool waits : {false, true}) {
    const auto [asynchronous, counted] = train({.own_thread = true, .waits_at_mark_step = waits});
    EXPECT_EQ(asynchronous, weights);
    EXPECT_EQ(counted, counts);
  }
}

TEST(TpuSubmissionTest, ReportsWhetherItRunsConcurrently) {
  EXPECT_FALSE(make_tpu_device({})->runs_asynchronously());
  EXPECT_TRUE(make_tpu_device({.own_thread = true})->runs_asynchronously());
  EXPECT_FALSE(make_tpu_device({.own_thread = true, .waits_at_mark_step = true})->runs_asynchronously());
}

using backends::testing::HostTensor;
using backends::testing::Inputs;
using backends::testing::Session;

// x is doubled in place, and rows are looked up in a table: in this order or in the other.
Program doubling_and_lookup(bool doubles_first) {
  Program program;
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{4}})};
  const Value table{&program, program.input(InputKind::kState, "table", {DType::kF32, Shape{3, 2}})};
  const Value ids{&program, program.input(InputKind::kBatch, "ids", {DType::kI64, Shape{2}})};
  const auto double_it = [&] { program.output("x", ops::mul(x, 2.0).id, 0); };
  if (doubles_first) double_it();
  program.output("rows", ops::embedding(table, ids).id);
  if (!doubles_first) double_it();
  return program;
}

Inputs lookup_inputs(double id) {
  return {HostTensor({DType::kF32, Shape{4}}, [](int64_t i) { return static_cast<double>(i + 1); }),
          HostTensor({DType::kF32, Shape{3, 2}}, [](int64_t i) { return static_cast<double>(i); }),
          HostTensor({DType::kI64, Shape{2}}, [id](int64_t) { return id; })};
}

TEST(HasWrittenStates, AfterAFailedOp) {
  std::vector<std::shared_ptr<Device>> devices;
  devices.push_back(make_cpu_device(1));
  for (const TpuOptions& options : {TpuOptions{}, TpuOptions{.own_thread = true}, TpuOptions{.eager = true}})
    devices.push_back(make_tpu_device(options));
  for (const auto& device : devices) {
    for (const bool doubles_first : {false, true}) {
      Session session(*device, doubling_and_lookup(doubles_first), lookup_inputs(5));
      EXPECT_THROW(device->wait(session.submit()), Error);
      const bool is_doubled = session.results().states[0].values() == std::vector<double>{2, 4, 6, 8};
      EXPECT_EQ(is_doubled, doubles_first);
      EXPECT_EQ(device->has_written_states(), doubles_first) << device->name();
      session.set_input(2, lookup_inputs(1)[2]);
      device->wait(session.submit());
      EXPECT_TRUE(device->has_written_states());
    }
  }
}

TEST(HasWrittenStates, IsFalseForARefusedGraph) {
  const auto device = make_tpu_device({.max_graphs = 1});
  const auto submit = [&](bool doubles_first) {
    const Program program = doubling_and_lookup(doubles_first);
    const auto executable = device->compile(program);
    const Inputs inputs = lookup_inputs(1);
    const std::shared_ptr<Buffer> x = device->allocate(inputs[0].bytes.size()),
                                  table = device->allocate(inputs[1].bytes.size());
    Buffer* states[] = {x.get(), table.get()};
    const std::byte* batch[] = {inputs[2].bytes.data()};
    device->wait(device->submit(*executable, {.states = states, .batch = batch, .scalars = {}}, {.step = 1}));
  };
  submit(false);
  EXPECT_TRUE(device->has_written_states());
  EXPECT_THROW(submit(true), Error);
  EXPECT_FALSE(device->has_written_states());
}

}  // namespace
}  // namespace runner::backends::tpu::testing
