// Factored gradients sum to the same as the gradients themselves.
#include "runner/train/step/factored_layout.h"

#include <random>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/kernels/kernel_choices.h"
#include "runner/train/step/declared_step.h"
#include "tests/backends/support/run_program.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

using backends::testing::Inputs;

constexpr StepShape kBetweenSteps{.batch = 6, .first = true, .last = false};

// 4-256-256-3: 1024, 65536 and 768 weights. Those of the second layer can be factored with up to 64 samples.
schema::Recipe recipe_of_large_weights() {
  schema::Recipe recipe = StepFixture::recipe();
  recipe.model.hidden = {256, 256};
  recipe.num_processes = 3;
  return recipe;
}

FactoredLayout layout_of(const StepFixture& steps, int64_t batch) {
  return factored_layout(steps.builder, steps.builder.record(batch, true));
}

Inputs random_inputs(const backends::Program& program, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Inputs inputs;
  for (const backends::Input& input : program.inputs())
    inputs.emplace_back(program.type(input.value), [&](int64_t i) {
      if (input.name == "labels") return static_cast<double>(i % 3);
      if (input.name == "mask") return i == 0 ? 0.0 : 1.0;
      return input.kind == backends::InputKind::kState ? normal(random) / 16 : normal(random);
    });
  return inputs;
}

// What a step with `batch` samples writes to the named state. All ranks have the same weights.
backends::testing::HostTensor written(const StepFixture& steps, int64_t batch, const FactoredLayout& layout,
                                      std::string_view state) {
  StepShape shape = kBetweenSteps;
  shape.batch = batch;
  const backends::Program program =
      complete_step(steps.builder, steps.builder.record(batch, true), shape, layout).program;
  const auto device = backends::make_cpu_device(1);
  const backends::testing::Results results = run_program(*device, program, random_inputs(program, 7));
  for (size_t i = 0, at = 0; i < program.inputs().size(); ++i) {
    if (program.inputs()[i].kind != backends::InputKind::kState) continue;
    if (program.inputs()[i].name.starts_with(state)) return results.states[at];
    ++at;
  }
  ADD_FAILURE() << "no state " << state;
  return backends::testing::HostTensor();
}

backends::testing::HostTensor sum_of(const StepFixture& steps,
                                     const std::vector<backends::testing::HostTensor>& all_factored,
                                     const FactoredLayout& layout, const Shard::Range& range) {
  backends::Program program;
  std::vector<Value> by_rank;
  for (const backends::testing::HostTensor& factored : all_factored)
    by_rank.push_back({&program, program.input(backends::InputKind::kState, "factored gradients", factored.type)});
  program.output("sum", sum_of_factored(by_rank, layout, steps.builder.model().parameters, 0, range).id);
  return run_program(*backends::make_cpu_device(1), program, all_factored).outputs[0];
}

TEST(FactoredLayout, FactorsGradientsOfLargeWeightsWithFewSamples) {
  const schema::Recipe recipe = recipe_of_large_weights();
  const StepFixture steps(recipe);
  const FactoredLayout layout = layout_of(steps, 6);
  std::vector<int64_t> samples, offsets;
  for (const FactoredPart& part : layout.parts) samples.push_back(part.samples), offsets.push_back(part.offset);
  EXPECT_EQ(samples, (std::vector<int64_t>{0, 0, 6, 0, 0, 0}));
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1024, 1280, 1280 + 6 * 512, 1536 + 6 * 512, 2304 + 6 * 512}));
  EXPECT_EQ(layout.elements, 2307 + 6 * 512);
  EXPECT_EQ(layout_of(steps, 32).parts.at(2).samples, 32);
  EXPECT_EQ(layout_of(steps, 65).elements, 0);
  // Without AVX-512, rows of a larger product may have other bits than in the whole.
  EXPECT_EQ(layout_of(steps, 64).elements, backends::has_uniform_rows(256, 256, 64) ? 2307 + 64 * 512 : 0);
  const schema::Recipe small = StepFixture::recipe();
  EXPECT_EQ(layout_of(StepFixture(small), 6).elements, 0);
}

// Ranks with 6, 5 and no samples. Ranges begin and end within a row, cover less than one, or everything.
TEST(FactoredLayout, SumsAreBitIdenticalToTheFoldOfGradients) {
  const schema::Recipe recipe = recipe_of_large_weights();
  const StepFixture steps(recipe);
  const FactoredLayout layout = layout_of(steps, 6);
  std::vector<backends::testing::HostTensor> all_factored, gradients;
  for (const int64_t batch : {6, 5}) {
    all_factored.push_back(written(steps, batch, layout, "factored gradients"));
    gradients.push_back(written(steps, batch, {}, "gradients"));
  }
  all_factored.emplace_back(all_factored[0].type, [](int64_t) { return 0.0; });
  const int64_t all = steps.parameters();
  for (const Shard::Range& range : {Shard::Range{0, all},
                                    {0, 16},
                                    {1280, 65536},
                                    {1296, 100},
                                    {1290, 700},
                                    {66700, 116},
                                    {66816, 16},
                                    {30000, all - 30000}}) {
    const backends::testing::HostTensor sum = sum_of(steps, all_factored, layout, range);
    ASSERT_EQ(sum.type.shape.elements(), range.count);
    for (int64_t i = 0; i < range.count; ++i)
      ASSERT_EQ(static_cast<float>(sum[i]),
                static_cast<float>(gradients[0][range.first + i]) + static_cast<float>(gradients[1][range.first + i]))
          << "element " << i << " of " << range.count << " from " << range.first;
  }
}

}  // namespace
}  // namespace runner::train
