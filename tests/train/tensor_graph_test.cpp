// The trainer's steps as graphs over tensors compute what the flat arrays do.
#include "backends/tpu/tensor_graph.h"

#include <map>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/tpu/graph_text.h"
#include "runner/train/step/declared_step.h"
#include "tests/backends/support/run_program.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

using backends::InputKind;
using backends::Program;
using backends::StateTensors;
using backends::testing::Inputs;
using backends::testing::Results;

StateTensors state_tensors_of(const StepFixture& steps) {
  return steps.builder.layout().tensors();
}

// Classes below 3, or numbers in (0, 1).
backends::testing::HostTensor some(const backends::TensorType& type, int64_t seed) {
  return backends::testing::HostTensor(type, [&](int64_t i) {
    return backends::is_float(type.dtype) ? static_cast<double>((i * 37 + seed * 11) % 97 + 1) / 100
                                          : static_cast<double>((i + seed) % 3);
  });
}

// Inputs of a step, and the contents of its arrays by name.
struct SomeInputs {
  Inputs flat;
  std::map<std::string, backends::testing::HostTensor> by_name;
};

// Splits an array into its tensors.
void split(const backends::testing::HostTensor& array, const std::vector<backends::StateTensor>& tensors,
           std::map<std::string, backends::testing::HostTensor>& by_name) {
  int64_t at = 0;
  for (const auto& [name, type] : tensors) {
    by_name[name] = backends::testing::HostTensor(type, [&](int64_t i) { return array[at + i]; });
    at += type.shape.elements();
  }
}

SomeInputs some_inputs(const Program& step, const StateTensors& tensors) {
  SomeInputs all;
  for (size_t i = 0; i < step.inputs().size(); ++i) {
    const backends::Input& input = step.inputs()[i];
    all.flat.push_back(some(step.type(input.value), static_cast<int64_t>(i)));
    if (input.kind == InputKind::kState)
      split(all.flat[i], tensors[i], all.by_name);
    else
      all.by_name[input.name] = all.flat[i];
  }
  return all;
}

// Outputs by name: everything that a step returns, with each state split into tensors.
using Named = std::map<std::string, backends::testing::HostTensor>;

Named flat_results(const Program& step, const Inputs& inputs, const StateTensors& tensors) {
  const auto device = backends::make_cpu_device(1);
  const Results results = backends::testing::run_program(*device, step, inputs);
  Named named;
  size_t returned = 0;
  for (const backends::Output& output : step.outputs()) {
    if (output.state < 0)
      named[output.name] = results.outputs[returned++];
    else
      split(results.states[static_cast<size_t>(output.state)], tensors[static_cast<size_t>(output.state)], named);
  }
  return named;
}

Named tensor_results(const Program& graph, const std::map<std::string, backends::testing::HostTensor>& by_name) {
  const auto device = backends::make_cpu_device(1);
  Inputs inputs;
  std::vector<size_t> state_of(graph.inputs().size());
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    state_of[i] = i == 0 ? 0 : state_of[i - 1] + (graph.inputs()[i - 1].kind == InputKind::kState);
    inputs.push_back(by_name.at(graph.inputs()[i].name));
  }
  const Results results = backends::testing::run_program(*device, graph, inputs);
  Named named;
  size_t returned = 0;
  for (const backends::Output& output : graph.outputs())
    named[output.name] =
        output.state < 0 ? results.outputs[returned++] : results.states[state_of[static_cast<size_t>(output.state)]];
  return named;
}

// Bit-identical except for what depends on a norm, whose squares are summed per tensor.
void expect_same(const Named& now, const Named& want, bool clips) {
  ASSERT_EQ(now.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(now.contains(name)) << name;
    if (!clips) {
      EXPECT_EQ(now.at(name), tensor) << name;
    }
    for (int64_t i = 0; i < tensor.size(); ++i) EXPECT_NEAR(now.at(name)[i], tensor[i], 1e-6) << name;
  }
}

void expect_same_step(const schema::Recipe& recipe, const StepShape& shape) {
  const StepFixture steps(recipe);
  const StateTensors tensors = state_tensors_of(steps);
  const auto step = std::make_shared<const Program>(
      complete_step(steps.builder, steps.builder.record(shape.batch, true), shape).program);
  const Program graph = backends::tpu::tensor_graph({step, {}, {}, {}}, tensors);
  EXPECT_EQ(backends::tpu::ir_text(graph).find("aten::cat(%"), backends::tpu::ir_text(graph).rfind("aten::cat(%"))
      << "only the sums of losses are concatenated";
  const SomeInputs inputs = some_inputs(*step, tensors);
  expect_same(tensor_results(graph, inputs.by_name), flat_results(*step, inputs.flat, tensors),
              recipe.train.clip_grad_norm.has_value());
}

TEST(TensorGraphOfAStep, MatchesFlatArrays) {
  for_each_update(expect_same_step);
}

// Like torch_xla's dump of such a step: shapes of weights and biases as in PyTorch.
TEST(TensorGraphOfAStep, HasTheTensorsOfTheModel) {
  const schema::Recipe recipe = StepFixture::recipe();
  const StepFixture steps(recipe);
  const auto step =
      std::make_shared<const Program>(complete_step(steps.builder, steps.builder.record(8, true), {8}).program);
  const Program graph = backends::tpu::tensor_graph({step, {}, {}, {}}, state_tensors_of(steps));
  std::map<std::string, std::string> types;
  for (const backends::Input& input : graph.inputs()) types[input.name] = graph.type(input.value).to_string();
  EXPECT_EQ(types["0.weight"], "(5, 4) f32");
  EXPECT_EQ(types["0.bias"], "(5) f32");
  EXPECT_EQ(types["2.weight"], "(3, 5) f32");
  EXPECT_EQ(types["2.bias"], "(3) f32");
  EXPECT_EQ(types["features"], "(8, 4) f32");
  EXPECT_EQ(types["labels"], "(8) i64");
  EXPECT_FALSE(types.contains("parameters 0"));
}

}  // namespace
}  // namespace runner::train
