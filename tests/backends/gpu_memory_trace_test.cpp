// Allocator requests of launches: small Programs by hand, random ones against a plain computation of lifetimes.
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/gpu/memory_trace.h"
#include "backends/ir/ops.h"
#include "backends/ir/views.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/random_program.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::launched_plan;

constexpr DType kF32 = DType::kF32;

Value input_of(Program& program, InputKind kind, const char* name, const Shape& shape) {
  return {&program, program.input(kind, name, {kF32, shape})};
}

// "+matmul 32" for an allocation, "-matmul" for a free, in order; "=sum" for what stays.
std::string text_of(const MemoryTrace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    const TraceBuffer& buffer = trace.buffers[static_cast<size_t>(event.buffer)];
    text += event.allocates ? fmt::format("+{} {} ", buffer.name, buffer.bytes) : fmt::format("-{} ", buffer.name);
  }
  for (const int32_t output : trace.outputs)
    text += fmt::format("={} ", trace.buffers[static_cast<size_t>(output)].name);
  return text;
}

TEST(GpuMemoryTrace, ResultsLiveUntilTheirLastRead) {
  Program program;
  const Value parameters = input_of(program, InputKind::kState, "parameters", {16});
  const Value x = input_of(program, InputKind::kBatch, "features", {4, 8});
  program.set_mark({"m.lua", 10, 0});
  const Value y = ops::matmul(x, ops::reshape(ops::slice(parameters, 0, 0, 16), {8, 2}));
  program.set_mark({"m.lua", 11, 0});
  const Value z = ops::exp(y);
  program.output("loss", ops::sum(ops::mul(z, y)).id);

  const Plan plan = launched_plan(program);
  const MemoryTrace trace = trace_memory(plan);
  // Neither the slice of a state nor a result whose operand dies is in place.
  EXPECT_EQ(text_of(trace), "+matmul 32 +exp 32 +mul 32 -matmul -exp +sum 4 -mul =sum ");
  EXPECT_EQ(trace.buffers[0].line, (SourceMark{"m.lua", 10, 0}));
  EXPECT_EQ(trace.buffers[1].line, (SourceMark{"m.lua", 11, 0}));
  EXPECT_EQ((std::pair{trace.buffers[0].first, trace.buffers[0].last}), (std::pair{0, 2}));
  EXPECT_EQ((std::pair{trace.buffers[3].first, trace.buffers[3].last}), (std::pair{3, 5}));
  EXPECT_EQ((std::pair{trace.states[0].name, trace.states[0].bytes}),
            (std::pair{std::string("parameters"), int64_t{64}}));
  EXPECT_EQ((std::pair{trace.batch[0].name, trace.batch[0].bytes}), (std::pair{std::string("features"), int64_t{128}}));
  EXPECT_EQ(trace.batch_size, 4);
  EXPECT_TRUE(trace.has_f32_products);
  EXPECT_TRUE(trace.buffers[2].grows);
  EXPECT_FALSE(trace.buffers[3].grows) << "a sum over samples does not grow";
  // Blocks of 512 bytes: the batch, and the three buffers live during mul.
  EXPECT_EQ(peak_bytes(trace), 4 * 512);
}

TEST(GpuMemoryTrace, OptimizersUpdateStatesInPlace) {
  Program program;
  const Value p = input_of(program, InputKind::kState, "parameters", {2, 3});
  const Value g = input_of(program, InputKind::kBatch, "gradients", {2, 3});
  program.output("", ops::sub(p, ops::mul(g, 0.1)).id, 0);
  EXPECT_EQ(text_of(trace_memory(launched_plan(program))), "+mul 24 -mul ");
}

TEST(GpuMemoryTrace, AStateThatIsReadLaterIsCopiedAtTheEnd) {
  Program program;
  const Value a = input_of(program, InputKind::kState, "a", {3}), b = input_of(program, InputKind::kState, "b", {3});
  program.output("", ops::add(b, 1.0).id, 0);
  program.output("", ops::exp(a).id, 1);
  const Plan plan = launched_plan(program);
  ASSERT_EQ(plan.copies.size(), 1U);
  EXPECT_EQ(text_of(trace_memory(plan)), "+add 12 -add ");
  EXPECT_EQ(trace_memory(plan).buffers[0].last, 2);
}

// As many elements as the parameters: scaling and update are one launch that overwrites its operand.
TEST(GpuMemoryTrace, WholeFlatBuffersAreScaledInPlace) {
  Program program;
  const Value p = input_of(program, InputKind::kState, "parameters", {6});
  const Value g = input_of(program, InputKind::kBatch, "gradients", {6});
  const Value unscaled = ops::mul(g, 0.1);
  const Value scaled = ops::mul(unscaled, ops::sum(unscaled));
  program.output("", ops::sub(p, scaled).id, 0);
  program.output("part", ops::exp(ops::slice(scaled, 0, 0, 5)).id);
  EXPECT_EQ(text_of(trace_memory(launched_plan(program))), "+mul 24 +sum 4 -sum +exp 20 -mul =exp ");
}

TEST(GpuMemoryTrace, PartsOfAConcatAreWrittenInPlace) {
  Program program;
  const Value x = input_of(program, InputKind::kBatch, "x", {3}), y = input_of(program, InputKind::kBatch, "y", {2, 2});
  const Value parts[] = {ops::exp(x), ops::reshape(ops::neg(y), {4})};
  const Value joined = ops::concat(parts, 0);
  program.output("first", ops::relu(ops::slice(joined, 0, 2, 5)).id);
  const Plan plan = launched_plan(program);
  ASSERT_EQ(plan.steps.size(), 3U);
  EXPECT_EQ(text_of(trace_memory(plan)), "+concat 28 +relu 12 -concat =relu ");
}

TEST(GpuMemoryTrace, AllReducesAreInPlace) {
  Program program;
  const Value x = input_of(program, InputKind::kBatch, "x", {3, 2});
  const Value sum = ops::all_reduce(ops::exp(x), Reduction::kSum, Subject::kGradients);
  const Value kept = ops::neg(x), sums = ops::all_reduce(kept, Reduction::kSum, Subject::kGradients);
  program.output("", ops::sum(sum).id);
  program.output("", ops::add(kept, sums).id);
  EXPECT_EQ(text_of(trace_memory(launched_plan(program))),
            "+exp 24 +neg 24 +all_reduce 24 +sum 4 -exp +add 24 -neg -all_reduce =sum =add ");
}

TEST(GpuMemoryTrace, EmptyTensorsTakeNoMemory) {
  Program program;
  const Value x = input_of(program, InputKind::kBatch, "x", {0, 3});
  program.output("", ops::exp(x).id);
  program.output("", ops::sum(x).id);
  const MemoryTrace trace = trace_memory(launched_plan(program));
  EXPECT_EQ(text_of(trace), "+sum 4 =sum ");
  EXPECT_TRUE(trace.batch.empty());
}

TEST(GpuMemoryTrace, BatchesHaveTheCopiedInputs) {
  Program program;
  const Value unread = input_of(program, InputKind::kBatch, "unread", {4, 3});
  const Value x = input_of(program, InputKind::kBatch, "x", {4, 3});
  const Value seed = input_of(program, InputKind::kBatch, "seed", {4});
  static_cast<void>(unread);
  program.output("", ops::sum(x).id);
  program.output("", ops::sum(seed).id);
  const MemoryTrace trace = trace_memory(launched_plan(program));
  ASSERT_EQ(trace.batch.size(), 1u);
  EXPECT_EQ(trace.batch[0].name, "x");
  EXPECT_EQ(trace.batch[0].input, 1u);
}

// Finds which values share memory, and their lifetimes, by visiting all steps for each value.
class PlainTrace {
 public:
  explicit PlainTrace(const Plan& plan)
      : plan_(plan), program_(plan.program), same_(static_cast<size_t>(program_.size())) {
    std::iota(same_.begin(), same_.end(), 0);
    const auto steps = static_cast<int>(plan.steps.size());
    for (ValueId id = 0; id < program_.size(); ++id) {
      const bool joins = program_.node(id).op == Op::kConcat && !has_step(id);
      if (is_view(program_, id)) unite(id, program_.operands(id)[0]);
      for (const ValueId part : joins ? program_.operands(id) : std::span<const ValueId>()) unite(id, part);
    }
    for (const PlanStep& step : plan.steps)
      for (size_t i = 0; i < step.results.size(); ++i) unite_in_place(step, i);
    needs_.resize(same_.size());
    for (int s = 0; s < steps; ++s) {
      const PlanStep& step = plan.steps[static_cast<size_t>(s)];
      for (size_t i = 0; i < step.results.size(); ++i)
        if (step.results[i].slot == 0) made(step.result_values[i], s);
      for (const ValueId id : step.operand_values) needed(id, s);
    }
    for (const Output& output : program_.outputs()) needed(output.value, output.state < 0 ? steps + 1 : steps);
  }

  // While `step` runs.
  int64_t live_bytes(int step) const {
    int64_t bytes = 0;
    for (const Need& need : needs_)
      if (need.first >= 0 && need.first <= step && step <= need.last) bytes += need.bytes;
    return bytes;
  }

 private:
  struct Need {
    int first = -1, last = -1;
    int64_t bytes = 0;
  };

  bool has_step(ValueId id) const {
    return std::ranges::any_of(plan_.steps, [&](const PlanStep& step) { return step.node == id; });
  }

  bool is_flat(ValueId id) const {
    for (const Input& input : program_.inputs())
      if (input.kind == InputKind::kState && program_.type(input.value).shape == program_.type(id).shape)
        return program_.type(id).shape.rank() == 1;
    return false;
  }

  void unite_in_place(const PlanStep& step, size_t result) {
    const ValueId id = step.result_values[result];
    if (step.results[result].slot != 0 || !(is_flat(id) || is_collective(program_.node(step.node).op))) return;
    for (size_t i = 0; i < step.operands.size(); ++i)
      if (step.operands[i] == step.results[result] && size_of_all(step.operand_values[i]) == size_of_all(id))
        return unite(step.operand_values[i], id);
  }

  // Size of the memory that a value is in.
  int64_t size_of_all(ValueId id) const {
    int64_t most = 0;
    for (ValueId other = 0; other < program_.size(); ++other)
      if (same_[static_cast<size_t>(other)] == same_[static_cast<size_t>(id)])
        most = std::max(most, static_cast<int64_t>(program_.type(other).bytes()));
    return most;
  }

  void unite(ValueId a, ValueId b) {
    const ValueId from = same_[static_cast<size_t>(b)], to = same_[static_cast<size_t>(a)];
    for (ValueId& same : same_)
      if (same == from) same = to;
  }

  Need& need_of(ValueId id) { return needs_[static_cast<size_t>(same_[static_cast<size_t>(id)])]; }
  void made(ValueId id, int step) {
    Need& need = need_of(id);
    if (need.first < 0) need = {step, step, size_of_all(id)};
    need.last = step;
  }
  void needed(ValueId id, int step) { need_of(id).last = std::max(need_of(id).last, step); }

  const Plan& plan_;
  const Program& program_;
  std::vector<ValueId> same_;  // by value: one of the values in the same memory
  std::vector<Need> needs_;    // by that value
};

void expect_plain_trace(const Plan& plan, const std::string& name) {
  const MemoryTrace trace = trace_memory(plan);
  const PlainTrace expected(plan);
  int64_t now = 0;
  size_t event = 0;
  std::vector<char> live(trace.buffers.size(), 0);
  for (int step = 0; step <= static_cast<int>(plan.steps.size()) + 1; ++step) {
    for (; event < trace.events.size(); ++event) {
      const auto b = static_cast<size_t>(trace.events[event].buffer);
      if (!trace.events[event].allocates || trace.buffers[b].first != step) break;
      ASSERT_FALSE(live[b]);
      live[b] = 1;
      now += trace.buffers[b].bytes;
    }
    ASSERT_EQ(now, expected.live_bytes(step)) << name << ", step " << step;
    for (; event < trace.events.size(); ++event) {
      const auto b = static_cast<size_t>(trace.events[event].buffer);
      if (trace.events[event].allocates || trace.buffers[b].last != step) break;
      ASSERT_TRUE(live[b]);
      live[b] = 0;
      now -= trace.buffers[b].bytes;
    }
  }
  EXPECT_EQ(event, trace.events.size());
  for (const int32_t output : trace.outputs) live[static_cast<size_t>(output)] = 0;
  EXPECT_EQ(std::accumulate(live.begin(), live.end(), 0), 0) << name;
}

// Launched one by one, and in groups with several results.
void expect_plain_traces(const Program& program, const std::string& name) {
  expect_plain_trace(launched_plan(program), name);
  expect_plain_trace(build_plan(program), name + ", fused");
}

TEST(GpuMemoryTrace, RandomProgramsAllocateOnlyValuesThatAreRead) {
  for (uint32_t seed = 0; seed < 60; ++seed)
    expect_plain_traces(backends::testing::RandomProgram(seed, 40).program, fmt::format("seed {}", seed));
}

TEST(GpuMemoryTrace, TrainingStepsAllocateOnlyValuesThatAreRead) {
  expect_plain_traces(backends::testing::MlpStep({.layer_norm = true, .dropout = 0.1}).program(), "mlp");
  expect_plain_traces(backends::testing::GptStep({}).program(), "gpt");
}

// Activations shrink with the batch; gradients and updates do not.
TEST(GpuMemoryTrace, ASmallerBatchUsesLess) {
  const auto fullest = [](int64_t batch, TraceScale scale) {
    const backends::testing::MlpStep step({.batch = batch, .widths = {64, 256, 256, 8}});
    return peak_bytes(scaled(trace_memory(launched_plan(step.program())), scale));
  };
  for (const int64_t parts : {2, 4, 8}) {
    const auto predicted = static_cast<double>(fullest(512, {.samples = 512 / parts}));
    EXPECT_NEAR(predicted / static_cast<double>(fullest(512 / parts, {})), 1, 0.01) << parts;
  }
  EXPECT_LT(fullest(512, {.narrow = true}), fullest(512, {}));
}

}  // namespace
}  // namespace runner::backends::gpu::testing
