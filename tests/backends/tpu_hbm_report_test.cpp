// Texts of memory plans, advice on what to change, and padding that swapping axes would save.
#include <gtest/gtest.h>

#include "backends/ir/batch_growth.h"
#include "backends/ir/ops.h"
#include "backends/ir/print.h"
#include "backends/ir/views.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/hbm_advice.h"
#include "backends/tpu/lowered_graph.h"
#include "schema/base/error.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/on_tpu.h"

namespace runner::backends::tpu::testing {
namespace {

TEST(TpuHbmReport, PrintsSizesLikeXla) {
  const std::pair<int64_t, const char*> sizes[] = {{0, "0B"},
                                                   {1023, "1023B"},
                                                   {1024, "1.0K"},
                                                   {430080, "420.0K"},
                                                   {1 << 20, "1.00M"},
                                                   {555745280, "530.00M"},
                                                   {int64_t{9749575762}, "9.08G"},
                                                   {int64_t{1} << 40, "1024.00G"}};
  for (const auto& [bytes, text] : sizes) EXPECT_EQ(xla_size_text(bytes), text);
}

// (N, 4) bf16 from a product, summed: 1.5 GiB instead of 48 MiB per 6,291,456 rows. Eight times that does not fit on
// v2.
class Narrow {
 public:
  explicit Narrow(int64_t rows) : graph_(record(rows)) {}
  const DeviceProgram& device() const { return graph_.device(); }

 private:
  static Program record(int64_t rows) {
    Program program;
    program.set_mark({"model.lua", 3, 0});
    const Value x{&program, program.input(InputKind::kBatch, "features", {DType::kBf16, Shape{rows, 4}})};
    const Value w{&program, program.input(InputKind::kState, "parameters 0", {DType::kBf16, Shape{4, 4}})};
    program.set_mark({"model.lua", 12, 0});
    const int64_t axes[] = {0};
    program.output("", ops::sum(ops::matmul(x, w), axes).id);
    return program;
  }
  OnTpu graph_;
};

TEST(TpuHbmReport, ResourceExhausted) {
  const Narrow narrow(6 * 6291456);
  const HbmOptions options{.generation = Generation::kV2, .prefetched_batches = 2};
  const HbmPlan plan = plan_hbm(narrow.device(), options);
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(
      resource_exhausted_text(narrow.device(), options, plan),
      R"(RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 9.84G of 7.48G hbm. Exceeded hbm capacity by 2.36G.

Total hbm usage >= 10.36G:
    reserved        530.00M
    program           9.00G
    arguments       288.00M
    outputs            512B
    prefetched      576.00M

Output size 512B; shares 0B with arguments.

Program hbm requirement 9.00G:
    code              64.0K (estimated)
    HLO temp          9.00G (3.1% utilization: Unpadded (288.00M) Padded (9.00G), 0.0% fragmentation (0B))

  Largest program allocations in hbm:

  1. Size: 9.00G
     Operator: op_type="matmul" source_file="model.lua" source_line=12
     Shape: bf16[37748736,4]{1,0:T(8,128)(2,1)}
     Unpadded size: 288.00M
     Extra memory due to padding: 8.72G (32.0x expansion)
     XLA label: %2 = matmul %0 %1 {0, 0} : (37748736, 4) bf16
     Allocation type: HLO temp
     ==========================

  2. Size: 288.00M
     Operator: op_type="input" op_name="features" source_file="model.lua" source_line=3
     Shape: bf16[37748736,4]{0,1:T(4,128)(2,1)}
     Unpadded size: 288.00M
     XLA label: %0 = input batch 'features' : (37748736, 4) bf16
     Allocation type: argument
     ==========================

  3. Size: 1.0K
     Operator: op_type="input" op_name="parameters 0" source_file="model.lua" source_line=3
     Shape: bf16[4,4]{1,0:T(4,128)(2,1)}
     Unpadded size: 32B
     Extra memory due to padding: 992B (32.0x expansion)
     XLA label: %1 = input state 'parameters 0' : (4, 4) bf16
     Allocation type: argument
     ==========================

  4. Size: 512B
     Operator: op_type="sum" source_file="model.lua" source_line=12
     Shape: bf16[4]{0:T(256)(128)(2,1)}
     Unpadded size: 8B
     Extra memory due to padding: 504B (64.0x expansion)
     XLA label: %3 = sum %2 {0} : (4) bf16
     Allocation type: output
     ==========================

First thing to change: model.lua:12: swap the axes of bf16[37748736,4]: as bf16[4,37748736] it needs 288.00M instead of 9.00G (saves about 8.72G))");
}

TEST(TpuHbmReport, PaddingFaultsAdviseToSwapAxes) {
  const Narrow narrow(6291456);
  const std::vector<PaddingFault> faults = padding_faults(narrow.device(), plan_hbm(narrow.device(), {}));
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].where.to_string(), "model.lua:12");
  EXPECT_EQ(faults[0].text,
            "bf16[6291456,4] needs 1.50G of HBM for 48.00M: its last axis of 4 is padded to 128 (32.0x expansion); "
            "with the long axis last, as bf16[4,6291456], it needs 48.00M");
  // 4,000 rows take less than 1 MiB and are ignored.
  EXPECT_TRUE(padding_faults(Narrow(4000).device(), plan_hbm(Narrow(4000).device(), {})).empty());
}

TEST(TpuHbmReport, PaddingTextsAreDistinctAndAtMostThree) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "features", {DType::kF32, Shape{4096, 8}})};
  for (const int64_t width : {1, 2, 2, 3, 4}) {
    const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{8, width}})};
    program.output("", ops::matmul(x, w).id);
  }
  const OnTpu graph(program);
  const std::vector<std::string> texts = padding_texts(graph.device(), plan_hbm(graph.device(), {}));
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[0],
            "f32[4096,1] needs 2.00M of HBM for 16.0K: its last axis of 1 is padded to 128 (128.0x expansion); with "
            "the long axis last, as f32[1,4096], it needs 32.0K");
  EXPECT_EQ(texts[1].substr(0, 12), "f32[4096,2] ");
  EXPECT_EQ(texts[2],
            "f32[4096,3] needs 2.00M of HBM for 48.0K: its last axis of 3 is padded to 128 (42.7x expansion); with the "
            "long axis last, as f32[3,4096], it needs 64.0K; and 1 more of this kind");
  EXPECT_EQ(padding_texts(Narrow(6291456).device(), plan_hbm(Narrow(6291456).device(), {}))[0].substr(0, 32),
            "model.lua:12: bf16[6291456,4] ne");
}

// x (batch, width) · x, summed over the batch into a state of (width). The sizes decide which advice is given.
Program activations(int64_t batch, int64_t width) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "features", {DType::kF32, Shape{batch, width}})};
  const Value p{&program, program.input(InputKind::kState, "parameters 0", {DType::kF32, Shape{width}})};
  const int64_t axes[] = {0};
  program.output("", ops::add(p, ops::sum(ops::softmax(ops::exp(x)), axes)).id, 1);
  return program;
}

Advice advice_for(const Program& program, Generation generation) {
  const OnTpu graph(program);
  const HbmOptions options{.generation = generation};
  const HbmPlan plan = plan_hbm(graph.device(), options);
  EXPECT_FALSE(plan.fits());
  return first_thing_to_change(graph.device(), options, plan);
}

TEST(TpuHbmAdvice, HalvesTheBatch) {
  // Features and two temporaries of 3 GiB; half of them fits.
  const Advice advice = advice_for(activations(3 << 18, 1024), Generation::kV2);
  EXPECT_EQ(advice.text, "halve the batch size from 786432 to 393216");
  EXPECT_EQ(advice.saving, int64_t{9} << 29);
}

TEST(TpuHbmAdvice, HalvesTheBatchRepeatedly) {
  // Three times 32 GiB: half of them, by either change, is too much; a sixteenth is 6 GiB.
  const Advice advice = advice_for(activations(8 << 20, 1024), Generation::kV2);
  EXPECT_EQ(advice.text, "a batch size of 524288 instead of 8388608");
  EXPECT_EQ(advice.saving, int64_t{90} << 30);
}

TEST(TpuHbmAdvice, ChoosesTheLeastCostlyChangeThatSuffices) {
  const struct {
    Shortage shortage;
    const char* text;
    int64_t saving;
  } rows[] = {
      {{10'000, 8, 24'000, 0, 12'000}, "halve the batch size from 8 to 4", 12'000},
      {{11'000, 1, 24'000, 30'000, 12'000}, "mixed_precision: bf16", 12'000},
      {{11'000, std::nullopt, 0, 30'000, 12'000}, "mixed_precision: bf16", 12'000},
      {{20'000, 8, 24'000, 0, 12'000}, "a batch size of 1 instead of 8", 21'000},
      {{50'000, 8, 24'000, 200'000, 40'000},
       "a model of 75% of the size: its weights and tensors that grow with them need 195.3K",
       50'000},
      {{50'000, 1, 60'000, 40'000, 10'000},
       "a model of 1% of the size: its weights and tensors that grow with them need 39.1K, which alone is not enough",
       39'600},
      {{50'000, 2, 60'000, 0, 0}, "halve the batch size from 2 to 1, which alone is not enough", 30'000},
      {{50'000, 8, 24'000, 1'000, 40'000, 100'000, "hook.lua:8: f32[250,100]"},
       "hook.lua:8: f32[250,100] of 50% of the size: it and other tensors that depend on neither batch nor model need "
       "97.7K",
       50'000},
  };
  for (const auto& [shortage, text, saving] : rows) {
    const Advice advice = change_of(shortage);
    EXPECT_EQ(advice.text, text);
    EXPECT_EQ(advice.saving, saving) << text;
  }
}

// A hook tensor shrinks with neither the model nor the batch.
TEST(TpuHbmAdvice, NamesAHookTensor) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "parameters 0", {DType::kF32, Shape{64, 64}})};
  const Value x{&program, program.input(InputKind::kBatch, "features", {DType::kF32, Shape{8, 64}})};
  const Value key{&program, program.input(InputKind::kBatch, "draw_key", {DType::kI64, Shape{2}})};
  program.set_mark({"hook.lua", 8, 0});
  const Value noise = ops::random_uniform(key, Shape{1 << 16, 1 << 16}, 0);
  program.set_mark({"hook.lua", 9, 0});
  const Value product = ops::matmul(x, w);
  program.output("", ops::add(ops::sum(product), ops::sum(ops::exp(noise))).id);
  EXPECT_EQ(advice_for(program, Generation::kV2).text,
            "hook.lua:9: f32[65536,65536] of 46% of the size: it and other tensors that depend on neither batch nor "
            "model need 16.00G");
  const GraphIdentity graph{std::make_shared<const Program>(program), {}, {}, {}};
  try {
    static_cast<void>(LoweredGraph(graph, {}).check_memory({.machine = {.generation = Generation::kV2}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where().to_string(), "hook.lua:9");  // exp reuses the memory of its operand
  }
}

TEST(TpuHbmAdvice, ChoosesBf16OrASmallerModel) {
  // Weights of 12 GiB and a batch of one row.
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "features", {DType::kF32, Shape{1, 1 << 15}})};
  const Value w{&program, program.input(InputKind::kState, "parameters 0", {DType::kF32, Shape{1 << 15, 3 << 15}})};
  program.output("", ops::matmul(x, w).id);
  EXPECT_EQ(advice_for(program, Generation::kV2).text, "mixed_precision: bf16");
  const OnTpu bf16(program, {}, kBf16Types);
  // It fits then. Three times as large, only a smaller model would fit.
  EXPECT_TRUE(plan_hbm(bf16.device(), {.generation = Generation::kV2}).fits());
  Program larger;
  const Value y{&larger, larger.input(InputKind::kBatch, "features", {DType::kBf16, Shape{1, 1 << 15}})};
  const Value v{&larger, larger.input(InputKind::kState, "parameters 0", {DType::kBf16, Shape{1 << 15, 6 << 15}})};
  larger.output("", ops::matmul(y, v).id);
  const OnTpu graph(larger, {}, kBf16Types);
  const HbmOptions options{.generation = Generation::kV2};
  const Advice advice = first_thing_to_change(graph.device(), options, plan_hbm(graph.device(), options));
  EXPECT_EQ(advice.text, "a model of 62% of the size: its weights and tensors that grow with them need 12.00G");
  EXPECT_EQ(advice.saving, (int64_t{12} << 30) * 38 / 100);
}

// Compares a training step with the same step of twice the batch: values that grow with the batch are twice as large.
// Activations, their gradients, losses and masks grow; parameters, their gradients, moments and sums do not.
void expect_growth(const Program& one, const Program& two) {
  ASSERT_EQ(one.size(), two.size());
  const std::vector<char> grows = grows_with_batch(one);
  int grown = 0;
  for (ValueId id = 0; id < one.size(); ++id) {
    if (is_free(one, id)) continue;  // needs no memory of its own
    const bool twice = two.type(id).shape.elements() == 2 * one.type(id).shape.elements();
    EXPECT_EQ(grows[static_cast<size_t>(id)] != 0, twice) << to_string(one, id);
    grown += twice;
  }
  EXPECT_GT(grown, 20);
}

TEST(TpuHbmAdvice, FindsBuffersThatGrowWithTheBatch) {
  using runner::backends::testing::GptStep;
  using runner::backends::testing::MlpStep;
  const auto mlp = [](int64_t batch) {
    return MlpStep({.batch = batch, .widths = {20, 48, 24, 10}, .layer_norm = true, .dropout = 0.1}).program();
  };
  expect_growth(mlp(32), mlp(64));
  const auto gpt = [](int64_t batch) { return GptStep({.batch = batch}).program(); };
  expect_growth(gpt(3), gpt(6));
}

}  // namespace
}  // namespace runner::backends::tpu::testing
