// An emulated TPU whose operations run one by one: bit-identical results, and statistics of operations.
#include <map>

#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/graph_text.h"
#include "backends/tpu/tpu_device_model.h"
#include "schema/base/error.h"
#include "tests/backends/support/random_program.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

using tpu::make_eager_host;

std::unique_ptr<Device> eager_host() {
  return make_eager_host(make_cpu_device(1));
}

std::vector<Op> operations_of(const Executable& executable) {
  std::vector<Op> operations;
  for (const tpu::OpTimes& times : tpu::op_times(executable)) operations.push_back(times.op);
  return operations;
}

std::vector<int64_t> compile_times_of(const Executable& executable) {
  std::vector<int64_t> times;
  for (const tpu::OpTimes& each : tpu::op_times(executable)) times.push_back(each.compile_ns);
  return times;
}

// ---- the host ------------------------------------------------------------------------------------------------------

TEST(EagerHost, IsBitIdenticalToWholeProgramsOverSeveralRuns) {
  const auto whole = make_cpu_device(1), one_by_one = eager_host();
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    const RandomProgram random(seed, 24);
    Session want(*whole, random.program, random.inputs), got(*one_by_one, random.program, random.inputs);
    for (int run = 0; run < 2; ++run) {
      want.submit();
      got.submit();
      ASSERT_TRUE(got.results() == want.results()) << "seed " << seed << ", run " << run;
    }
  }
}

TEST(EagerHost, RunsOperationsSeparatelyAndCompilesEachKindOnce) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{2, 3}})};
  const Value bias{&program, program.input(InputKind::kState, "bias", {DType::kF32, Shape{3}})};
  const Value a = ops::relu(ops::add(x, ops::expand(bias, Shape{2, 3})));
  const Value b = ops::relu(ops::mul(a, 2.0));
  program.output("sum", ops::sum(ops::reshape(b, Shape{6})).id);
  ops::exp(x);  // has no reader

  const auto device = eager_host();
  const std::vector<double> numbers = {1, -2, 3, -4, 5, -6}, ones = {1, 1, 1};
  Session session(*device, program, {{{DType::kF32, Shape{2, 3}}, numbers}, {{DType::kF32, Shape{3}}, ones}});
  session.submit();
  EXPECT_EQ(session.output(0)[0], 2 * (2 + 4 + 6));
  EXPECT_EQ(operations_of(session.executable()), (std::vector{Op::kAdd, Op::kRelu, Op::kMul, Op::kRelu, Op::kSum}));
  for (const tpu::OpTimes& times : tpu::op_times(session.executable())) EXPECT_GT(times.run_ns, 0);
  const std::vector<int64_t> compiled_in = compile_times_of(session.executable());
  for (const int64_t ns : compiled_in) EXPECT_GT(ns, 0);
  EXPECT_EQ(compiled_in[1], compiled_in[3]) << "operations of the same kind";
  const auto again = device->compile(program);
  EXPECT_EQ(compile_times_of(*again), compiled_in);
}

TEST(EagerHost, FreesResultsAfterTheirLastReader) {
  Program program;
  Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{1024}})};
  for (int i = 0; i < 20; ++i) x = ops::exp(ops::neg(x));
  program.output("x", x.id);
  const auto device = eager_host();
  const auto executable = device->compile(program);
  EXPECT_GE(executable->arena_bytes(), 2u * 4096);
  EXPECT_LT(executable->arena_bytes(), 3u * 4096);
}

TEST(EagerHost, ErrorsHaveLinesOfTheCurrentRecording) {
  const auto recorded_at = [](int line) {
    Program program;
    const Value table{&program, program.input(InputKind::kState, "table", {DType::kF32, Shape{4, 2}})};
    const Value ids{&program, program.input(InputKind::kBatch, "ids", {DType::kI64, Shape{1}})};
    for (const int each : {line, line + 1}) {  // equal operations, compiled once
      program.set_mark({"h.lua", each, 0});
      const Value rows = ops::embedding(table, ops::add(ids, each == line ? 0.0 : 4.0));
      program.output("rows", rows.id);
    }
    return program;
  };
  const Program first = recorded_at(3), again = recorded_at(7);
  const auto device = eager_host();
  const auto executable = device->compile(first);
  const auto table = device->allocate(8 * sizeof(float));
  Buffer* const states[] = {table.get()};
  const int64_t id = 1;
  const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(&id)};
  for (const auto& [lines, line] : {std::pair{static_cast<const SourceLines*>(nullptr), 4}, {&again.lines(), 8}}) {
    try {
      device->submit(*executable, {.states = states, .batch = batch, .scalars = {}, .lines = lines});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.where().line, line) << error.what();
      EXPECT_NE(error.message().find("embedding"), std::string::npos) << error.what();
    }
  }
}

// ---- memory --------------------------------------------------------------------------------------------------------

constexpr int64_t kTile = 4096, kCode = 32 * 1024;  // of 8 × 128 f32; code of an operation

TEST(EagerMemory, CountsLiveTensorsAndTheCurrentResult) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8, 128}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{16, 128}})};
  const Value half = ops::slice(x, 0, 0, 8);  // w 1, x 2, half 1
  const Value product = ops::mul(half, w);    // and 1: half dies
  const Value moved = ops::sub(w, product);   // w 1, x 2, product 1, moved 1: w and product die
  const Value sum = ops::sum(moved);          // x 2, moved 1, and a vector of 128
  program.output("w", moved.id, 0);
  program.output("sum", sum.id);
  const auto ops = tpu::split_into_ops(program, tpu::parts_of_readers(program), tpu::TensorInputs::kAlike);
  const tpu::EagerMemory memory =
      tpu::eager_memory(program, ops, /*programs=*/4, {.machine = {}, .prefetched_batches = 3});
  std::vector<int64_t> padded;
  for (const tpu::EagerMoment& moment : memory.moments) padded.push_back(moment.padded);
  EXPECT_EQ(padded, (std::vector<int64_t>{4 * kTile, 5 * kTile, 5 * kTile, 3 * kTile + 512}));
  EXPECT_EQ(memory.moments[3].unpadded, 3 * kTile + 4);
  EXPECT_EQ(memory.used(1), 5 * kTile + 4 * kCode + 3 * 2 * kTile);
  EXPECT_EQ(memory.peak(1) - memory.used(1), memory.reserved);
}

// ---- the statistics ------------------------------------------------------------------------------------------------

// A step of SGD with momentum on one weight, as the engine records it: w (8) and v (8), the learning rate a scalar.
Program momentum_step(int64_t batch) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8}})};
  const Value v{&program, program.input(InputKind::kState, "v", {DType::kF32, Shape{8}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{batch, 8}})};
  const Value lr{&program, program.input(InputKind::kScalar, "lr", {DType::kF32, {}})};
  program.set_mark({"step.lua", 5, 0});
  const int64_t samples[] = {0};
  const Value gradient = ops::sum(x, samples);
  const Value moment = ops::add(ops::mul(v, 0.9), gradient);
  program.output("v", moment.id, 1);
  program.output("w", ops::sub(w, ops::mul(moment, lr)).id, 0);
  return program;
}

class EagerTpu : public ::testing::Test {
 protected:
  explicit EagerTpu(tpu::TpuOptions options = {}) { make(options); }

  void make(tpu::TpuOptions options) {
    options.eager = true;
    device_ = make_tpu_device(options);
    model().set_state_tensors({{{"w", {DType::kF32, Shape{8}}}}, {{"v", {DType::kF32, Shape{8}}}}});
    states_ = {device_->allocate(32), device_->allocate(32)};
  }

  void run(Executable& step, double lr, std::vector<int32_t> absent = {}, bool reads = false) {
    Buffer* const states[] = {states_[0].get(), states_[1].get()};
    const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(x_.data())};
    const double scalars[] = {lr};
    device_->submit(step, {.states = states, .batch = batch, .scalars = scalars},
                    {.absent = absent, .step = reads ? step_ + 1 : ++step_, .reads = reads});
  }

  std::shared_ptr<Executable> compiled(const Program& program) const { return device_->compile(program); }

  tpu::TpuDeviceModel& model() const { return tpu::model_of_tpu(*device_); }

  int64_t counter(std::string_view name) const {
    for (const tpu::CounterSnapshot& each : model().metrics().counters)
      if (each.name == name) return each.value;
    return -1;
  }
  int64_t samples(std::string_view name) const {
    for (const tpu::MetricSnapshot& each : model().metrics().metrics)
      if (each.name == name) return each.count;
    return -1;
  }
  std::vector<int64_t> counts() const {
    return {counter("UncachedCompile"), counter("CachedCompile"), samples("EagerOpCompileTime"),
            samples("EagerOpExecuteTime")};
  }
  std::vector<std::string> causes() const {
    std::vector<std::string> causes;
    for (const tpu::Graph& graph : model().graphs()) causes.push_back(graph.cause.text);
    return causes;
  }

  std::unique_ptr<ModelledDevice> device_;
  std::vector<std::shared_ptr<Buffer>> states_;
  const std::vector<float> x_ = std::vector<float>(64, 1.0f);
  int64_t step_ = 0;
};

using Counted = std::vector<int64_t>;

TEST_F(EagerTpu, CountsOperationsInsteadOfGraphs) {
  const auto step = compiled(momentum_step(4));
  run(*step, 0.1, {1});  // v is created with zeros; then sum, v · 0.9, +, · lr, −
  EXPECT_EQ(counts(), (Counted{6, 0, 6, 6}));
  run(*step, 0.1);
  EXPECT_EQ(counts(), (Counted{6, 5, 6, 11}));
  for (const char* name : {"CompileTime", "ExecuteTime"}) EXPECT_EQ(samples(name), 0) << name;
  EXPECT_EQ(samples("DeviceLockWait"), 11);
  EXPECT_EQ(samples("TensorsGraphSize"), 11);
  EXPECT_EQ(samples("InputOutputAliasCount"), 6);
  EXPECT_EQ(counter("CreateCompileHandles"), 6);
  EXPECT_EQ(counter("ExecuteComputation"), 11);
  EXPECT_EQ(counter("xla::mul"), 4);
  std::vector<float> w(8);
  device_->read(*states_[0], 0, std::as_writable_bytes(std::span(w)));
  EXPECT_FLOAT_EQ(w[0], -(0.1f * 4.0f + 0.1f * (0.9f * 4.0f + 4.0f)));
}

TEST_F(EagerTpu, ExplainsHowAnOperationDiffersFromTheNewestOfItsKind) {
  run(*compiled(momentum_step(4)), 0.1, {1});
  EXPECT_EQ(causes(), (std::vector<std::string>{
                          "the first aten::expand", "the first aten::sum", "the first aten::mul", "the first aten::add",
                          "an operand of aten::mul changed from the number 0.9 to lr", "the first aten::sub"}));
  run(*compiled(momentum_step(2)), 0.1);
  EXPECT_EQ(causes().back(), "an operand of aten::sum changed from (4, 8) f32 to (2, 8) f32");
  EXPECT_EQ(model().graphs().back().cause.line.to_string(), "step.lua:5");
  EXPECT_EQ(model().graphs().back().first_step, 2);
}

TEST_F(EagerTpu, ExplainsOtherDifferencesOfOperations) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8}})};
  const Value v{&program, program.input(InputKind::kState, "v", {DType::kF32, Shape{8}})};
  const Value square = ops::reshape(ops::concat(std::vector{w, v, w, v, w, v, w, v}, 0), Shape{8, 8});
  const Value first[] = {ops::mul(w, v),
                         ops::mul(w, w),
                         ops::sum(square, std::vector<int64_t>{0}),
                         ops::sum(square, std::vector<int64_t>{1}),
                         ops::mul(square, square),
                         ops::mul(square, ops::expand(w, Shape{8, 8}))};
  for (const Value& value : first) program.output("value", value.id);
  const auto step = compiled(program);
  Buffer* const states[] = {states_[0].get(), states_[1].get()};
  device_->submit(*step, {.states = states, .batch = {}, .scalars = {}}, {.step = 1});
  EXPECT_EQ(causes(),
            (std::vector<std::string>{"the first aten::cat", "the first aten::view", "the first aten::mul",
                                      "the inputs of aten::mul changed from 2 tensors to 1 tensor",
                                      "the first aten::sum", "the attributes of aten::sum changed from {0} to {1}",
                                      "an operand of aten::mul changed from (8) f32 to (8, 8) f32",
                                      "an operand of aten::mul changed from a tensor to a broadcast tensor (8) f32"}));
}

// A sum of the engine's own is an f32 kind where the same sum of the user's code is a bf16 kind.
TEST_F(EagerTpu, ShowsTheTypesOfEachKind) {
  tpu::TpuOptions options;
  options.hardware.types = {.f32 = DType::kBf16, .f64 = DType::kBf16};
  make(options);
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{8}})};
  const Value losses = ops::mul(x, x);
  program.output("user", ops::sum(losses).id);
  program.output("engine", ops::sum(ops::on_host(losses)).id);
  program.output("user again", ops::sum(ops::mul(losses, x)).id);
  const auto step = compiled(program);
  const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(x_.data())};
  device_->submit(*step, {.states = {}, .batch = batch, .scalars = {}}, {.step = 1});

  EXPECT_EQ(causes(), (std::vector<std::string>{
                          "the first aten::mul", "the first aten::sum",
                          "other operands or results of aten::sum are the engine's own, which keep their types",
                          "the inputs of aten::mul changed from 1 tensor to 2 tensors"}));
  std::vector<std::string> sums;
  for (const tpu::Graph& graph : model().graphs()) {
    const std::string text = tpu::ir_text(*graph.tensors, {graph.types, graph.bookkeeping});
    if (const size_t at = text.find("%1 = "); text.find("aten::sum") != std::string::npos)
      sums.push_back(text.substr(at, text.find(',', at) - at));
  }
  EXPECT_EQ(sums, (std::vector<std::string>{"%1 = bf16[] aten::sum(%0)", "%1 = f32[] aten::sum(%0)"}));
}

TEST_F(EagerTpu, AScalarThatBecomesZeroIsBaked) {
  const auto step = compiled(momentum_step(4));
  for (const double lr : {0.1, 0.2, 0.0, 0.3, 0.0}) run(*step, lr);
  EXPECT_EQ(counts(), (Counted{6, 19, 6, 25}));
  EXPECT_EQ(causes().back(), "aten::mul: lr is 0; the numbers 0, 1 and -1 are constants of the graph");
  make({.dialect = tpu::kClean});
  const auto clean = compiled(momentum_step(4));
  for (const double lr : {0.1, 0.0}) run(*clean, lr);
  EXPECT_EQ(counts(), (Counted{5, 5, 5, 10}));
}

TEST_F(EagerTpu, OperationsRunForAReadAreNotRunAgain) {
  const Program program = momentum_step(4);
  Program read = program.without_outputs();
  read.output({.name = "item", .value = program.outputs()[0].value, .is_read = true});
  const auto step = compiled(program), reads = compiled(read);
  run(*reads, 0.1, {}, /*reads=*/true);  // sum, v · 0.9, +
  EXPECT_EQ(counts(), (Counted{3, 0, 3, 3}));
  run(*reads, 0.1, {}, /*reads=*/true);
  EXPECT_EQ(counts(), (Counted{3, 0, 3, 3}));
  run(*step, 0.1);
  EXPECT_EQ(counts(), (Counted{5, 0, 5, 5}));
  run(*step, 0.1);
  EXPECT_EQ(counts(), (Counted{5, 5, 5, 10}));
}

// Two computations on x (4, 8); the first may be read before the second is recorded.
Program two_passes(bool second) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8}})};
  program.input(InputKind::kState, "v", {DType::kF32, Shape{8}});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4, 8}})};
  program.input(InputKind::kScalar, "lr", {DType::kF32, {}});
  const auto pass = [&](const Value& from) { return ops::exp(ops::mul(from, ops::expand(w, Shape{4, 8}))); };
  const Value first = pass(x);
  const Value last = second ? pass(first) : first;
  program.output({.name = "item", .value = last.id, .is_read = true});
  return program;
}

TEST_F(EagerTpu, EqualOperationsOfASecondPassRunForItsRead) {
  const auto first = compiled(two_passes(false)), both = compiled(two_passes(true));
  run(*first, 0.1, {}, /*reads=*/true);
  EXPECT_EQ(counts(), (Counted{2, 0, 2, 2}));
  run(*both, 0.1, {}, /*reads=*/true);
  EXPECT_EQ(counts(), (Counted{2, 2, 2, 4})) << "x is an ordinary tensor";
  run(*both, 0.1, {}, /*reads=*/true);
  EXPECT_EQ(counts(), (Counted{2, 2, 2, 4}));
}

TEST_F(EagerTpu, OperationsOfADroppedRecordingRunAgain) {
  const auto first = compiled(two_passes(false));
  run(*first, 0.1, {}, /*reads=*/true);
  device_->on_host_event(HostEvent::kRecording);
  run(*first, 0.1, {}, /*reads=*/true);
  EXPECT_EQ(counts(), (Counted{2, 2, 2, 4}));
}

TEST_F(EagerTpu, ExponentsAreAlwaysBaked) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8}})};
  program.input(InputKind::kState, "v", {DType::kF32, Shape{8}});
  program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4, 8}});
  const Value exponent{&program, program.input(InputKind::kScalar, "p", {DType::kF32, {}})};
  program.output("w", ops::pow(w, exponent).id, 0);
  const auto step = compiled(program);
  const auto run_with = [&](double p, ScalarUse use) {
    Buffer* const states[] = {states_[0].get(), states_[1].get()};
    const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(x_.data())};
    const double scalars[] = {p};
    const TracedScalar traced[] = {{.use = use, .value = p, .name = "p", .origin = program.node(exponent.id).origin}};
    device_->submit(*step, {.states = states, .batch = batch, .scalars = scalars}, {.traced = traced, .step = ++step_});
  };
  for (int i = 0; i < 40; ++i) run_with(1 + 0.125 * i, ScalarUse::kAttribute);
  EXPECT_EQ(counts(), (Counted{40, 0, 40, 40}));
  EXPECT_EQ(causes().back(), "aten::pow: p is 5.875, a constant of the graph because it is an attribute of the op");
  EXPECT_EQ(model().graphs().back().cause.kind, tpu::MissKind::kAttribute);
  run_with(1, ScalarUse::kAttribute);
  EXPECT_EQ(counts(), (Counted{40, 1, 40, 41})) << "evicted as a step, cached as an operation";
  for (int i = 1; i < 40; ++i) run_with(1e-60 * i, ScalarUse::kOperand);  // 0 as f32
  EXPECT_EQ(counts()[0], 41);
}

TEST_F(EagerTpu, CountsTheOperationsBeforeAFailure) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8}})};
  program.input(InputKind::kState, "v", {DType::kF32, Shape{8}});
  const Value ids{&program, program.input(InputKind::kBatch, "ids", {DType::kI64, Shape{4}})};
  const Value rows = ops::embedding(ops::reshape(ops::exp(w), Shape{4, 2}), ids);
  program.output("w", ops::add(w, ops::sum(ops::relu(rows))).id, 0);
  const auto step = compiled(program);
  Buffer* const states[] = {states_[0].get(), states_[1].get()};
  const int64_t beyond[] = {0, 1, 2, 4};
  const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(beyond)};
  EXPECT_THROW(device_->submit(*step, {.states = states, .batch = batch, .scalars = {}}, {.step = 1}), Error);
  EXPECT_EQ(samples("EagerOpExecuteTime"), counter("ExecuteComputation"));
  EXPECT_EQ(counter("xla::exp"), 1);
  EXPECT_EQ(counter("xla::relu"), 0);
}

// A step, and the sum of a batch of another size, as in an evaluation.
TEST_F(EagerTpu, AnalysisIgnoresEvaluations) {
  const auto step = compiled(momentum_step(4));
  run(*step, 0.1, {1});
  run(*step, 0.1);
  const std::vector<std::string> before = model().analysis();
  Program program;
  program.input(InputKind::kState, "w", {DType::kF32, Shape{8}});
  program.input(InputKind::kState, "v", {DType::kF32, Shape{8}});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{3, 8}})};
  program.input(InputKind::kScalar, "lr", {DType::kF32, {}});
  program.output("losses", ops::sum(x).id);
  const auto evaluation = compiled(program);
  --step_;
  run(*evaluation, 0.1);
  const std::vector<std::string> analysis = model().analysis();
  ASSERT_EQ(analysis.size(), 1u) << analysis.back();
  EXPECT_EQ(analysis[0].substr(0, analysis[0].find(" of ")), before[0].substr(0, before[0].find(" of ")));
  EXPECT_EQ(counter("ExecuteComputation"), 6 + 5 + 1);
}

TEST_F(EagerTpu, NotifiesTheListenerOfCompilations) {
  struct Listener : tpu::CompileListener {
    void begun(std::function<std::string()> what) override { texts.push_back(what()); }
    void ended() override { texts.emplace_back("done"); }
    std::vector<std::string> texts;
  } listener;
  model().set_listener(listener);
  const Program program = momentum_step(4);
  compiled(program);
  EXPECT_EQ(listener.texts,
            (std::vector<std::string>{fmt::format("the operations of {} nodes", program.size()), "done"}));
}

TEST_F(EagerTpu, TheGraphBudgetCountsOperations) {
  make({.max_graphs = 3});
  try {
    run(*compiled(momentum_step(4)), 0.1);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(
        text.starts_with("step.lua:5: training batch 1 needs graph 4, but tpu.max_graphs is 3: an operand of "
                         "aten::mul changed from the number 0.9 to lr; it took "))
        << text;
    EXPECT_TRUE(text.ends_with(" to compile; increase tpu.max_graphs to allow it")) << text;
  }
}

// A state and values computed from it: the batch of 1 MiB is not what is too large.
TEST_F(EagerTpu, AdviceForLargeWeightsIsNotASmallerBatch) {
  const auto advice_in = [&](int64_t rows, tpu::DeviceTypes types) {
    Program program;
    const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{rows, 32768}})};
    const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{8, 32768}})};
    program.output("w", ops::mul(ops::add(w, w), 3.0).id, 0);
    program.output("sum", ops::sum(ops::exp(w)).id);
    program.output("batch", ops::sum(x).id);
    make({.hardware = {.machine = {.generation = tpu::Generation::kV2}, .types = types}});
    model().set_state_tensors({{{"w", {DType::kF32, Shape{rows, 32768}}}}});
    const std::string text = model().forecast(program).exhausted;
    return text.substr(text.rfind("First thing"));
  };
  // Three times 4.5 GiB in f32, of 7.48 GiB; three times 6 GiB in bf16, of which 7.48 GiB are 41.5 %.
  EXPECT_EQ(advice_in(36864, tpu::kFullTypes),
            "First thing to change: mixed_precision: bf16 (saves about 6.75G); as one graph, without tpu.eager, it "
            "does not fit either");
  EXPECT_EQ(advice_in(98304, tpu::kBf16Types),
            "First thing to change: a model of 41% of the size: its weights and tensors that grow with them need "
            "18.00G (saves about 10.62G); as one graph, without tpu.eager, it does not fit either");
}

TEST_F(EagerTpu, ReportsAnOperationThatDoesNotFitBeforeAnythingRuns) {
  Program program;
  program.input(InputKind::kState, "w", {DType::kF32, Shape{8}});
  program.input(InputKind::kState, "v", {DType::kF32, Shape{8}});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{16384, 8192}})};  // 512M
  program.set_mark({"step.lua", 9, 0});
  const Value y = ops::mul(x, 3.0);
  program.set_mark({"step.lua", 10, 0});
  program.output("sum", ops::sum(ops::mul(ops::exp(y), x)).id);
  make({.hardware = {.machine = {.generation = tpu::Generation::kV2}, .prefetched_batches = 12}});  // 7662M
  const std::string want =
      "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 512.00M. That was not possible. "
      "There are 493.87M free.; (0x0x0_HBM0)\n\nThe operation is \"%6 = exp %5 : (16384, 8192) f32\" (step.lua:10); in "
      "addition to its result, live tensors need 1.00G, prefetched batches 6.00G, and the code of the operations "
      "128.0K.\n\nFirst thing to change: disable tpu.eager: traced as one graph this step needs 7.00G";
  EXPECT_EQ(model().forecast(program).exhausted, want);
  try {
    compiled(program);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.where().to_string(), "step.lua:10");
    EXPECT_EQ(error.message(), want);
  }
}

}  // namespace
}  // namespace runner::backends::testing
