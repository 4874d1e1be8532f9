// Predictions against published facts about BERT-large on a v3-8 with torch_xla 1.7: what fits, flops, seconds per
// step.
//
// The Program is a transformer of BERT-large's size (24 layers, width 1024, 16 heads, 512 tokens, vocabulary 30522)
// with AdamW, for one rank. It has no dropout, and its attention is causal, which costs the same.
#include <gtest/gtest.h>

#include "backends/tpu/hbm.h"
#include "backends/tpu/roofline.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/on_tpu.h"

namespace runner::backends::tpu::testing {
namespace {

using runner::backends::testing::GptStep;

struct BertLarge {
  GptStep step;
  OnTpu graph;

  BertLarge(int64_t batch, DeviceTypes types)
      : step({.batch = batch, .length = 512, .width = 1024, .heads = 16, .layers = 24, .vocabulary = 30522}),
        graph(step.program(), flat_states(step), types) {}

  // Parameters and both moments.
  static std::vector<std::vector<TensorType>> flat_states(const GptStep& step) {
    std::vector<TensorType> tensors;
    for (const Value& parameter : step.parameters()) tensors.push_back(parameter.type());
    return {tensors, tensors, tensors};
  }
};

bool fits(int64_t batch, DeviceTypes types, Generation generation) {
  return plan_hbm(BertLarge(batch, types).graph.device(), {.generation = generation}).fits();
}

TEST(TpuBertLarge, FitsIfItFitsOnRealTpus) {
  EXPECT_TRUE(fits(8, kFullTypes, Generation::kV3));
  EXPECT_FALSE(fits(16, kFullTypes, Generation::kV3));
  EXPECT_TRUE(fits(16, kBf16Types, Generation::kV3));
  EXPECT_FALSE(fits(8, kFullTypes, Generation::kV2));
}

// 1.104 TFLOP per sequence, and measured seconds per step: 0.9986 in fp32 with 64 sequences on 8 cores, 1.1908 in bf16
// with 128. The efficiency was fitted to the first.
TEST(TpuBertLarge, PredictedStepTimesIncludeMeasurements) {
  const auto time_of = [](int64_t batch, DeviceTypes types) {
    const BertLarge bert(batch, types);
    return predict_step(bert.graph.device(), trace_tensors(bert.graph.device()), {});
  };
  const StepTime fp32 = time_of(8, kFullTypes), bf16 = time_of(16, kBf16Types);
  EXPECT_NEAR(static_cast<double>(fp32.cost.flops), 8 * 1.104e12, 0.02 * 8 * 1.104e12);
  EXPECT_LT(fp32.least(), 0.9986);
  EXPECT_GT(fp32.most(Generation::kV3), 0.9986);
  EXPECT_LT(bf16.least(), 1.1908);
  EXPECT_GT(bf16.most(Generation::kV3), 1.1908);
  // Twice the sequences take 1.19 times as long; the prediction changes by the same factor, within 0.25.
  EXPECT_NEAR(bf16.least() / fp32.least(), 1.1908 / 0.9986, 0.25);
}

}  // namespace
}  // namespace runner::backends::tpu::testing
