// Pattern matching of parameter names, and the memory layout.
#include "runner/model/parameter_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/error.h"

namespace runner::nn {
namespace {

using Patterns = std::vector<std::string>;
using Groups = std::vector<Patterns>;

// Parameters of Linear(2, 3), LayerNorm(3), Linear(3, 1).
ParameterSet example() {
  ParameterSet set;
  set.add("0.weight", {3, 2}, {});
  set.add("0.bias", {3}, {});
  set.add("1.weight", {3}, {});
  set.add("1.bias", {3}, {});
  set.add("3.weight", {1, 3}, {});
  set.add("3.bias", {1}, {});
  return set;
}

// Returns "GROUP (ELEMENTS): name@offset …" for each buffer.
std::vector<std::string> layout(const ParameterSet& set) {
  std::vector<std::string> text;
  for (size_t b = 0; b < set.buffers().size(); ++b) {
    std::string line = fmt::format("{} ({}):", set.buffers()[b].group, set.buffers()[b].elements);
    for (const ParameterId id : set.in_buffer(static_cast<int32_t>(b))) {
      EXPECT_EQ(set[id].trainable, set.buffers()[b].group >= 0) << set[id].name;
      line += fmt::format(" {}@{}", set[id].name, set[id].offset);
    }
    text.push_back(line);
  }
  return text;
}

TEST(ParameterSet, OneBufferWithoutGroups) {
  ParameterSet set = example();
  set.lay_out({}, {});
  EXPECT_EQ(layout(set), (Patterns{"0 (19): 0.weight@0 0.bias@6 1.weight@9 1.bias@12 3.weight@15 3.bias@18"}));
  EXPECT_EQ(set.elements(), 19);
  EXPECT_EQ(set.trainable_elements(), 19);
}

TEST(ParameterSet, FirstMatchingGroupApplies) {
  ParameterSet set = example();
  const Groups groups = {{"*.bias"}, {"1.*", "3.*"}};
  set.lay_out({}, groups);
  EXPECT_EQ(layout(set),
            (Patterns{"0 (7): 0.bias@0 1.bias@3 3.bias@6", "1 (6): 1.weight@0 3.weight@3", "2 (6): 0.weight@0"}));
}

TEST(ParameterSet, ParametersListedByNameAreInThatOrder) {
  ParameterSet set = example();
  const Groups groups = {{"3.weight", "0.*", "1.bias", "0.weight"}};
  set.lay_out({}, groups);
  EXPECT_EQ(layout(set), (Patterns{"0 (15): 3.weight@0 1.bias@3 0.weight@6 0.bias@12", "1 (4): 1.weight@0 3.bias@3"}));
}

TEST(ParameterSet, EmptyGroupHasNoBuffer) {
  ParameterSet set = example();
  const Patterns freeze = {"1.*"};
  const Groups groups = {{"1.*"}, {"*"}};
  set.lay_out(freeze, groups);
  EXPECT_EQ(layout(set), (Patterns{"1 (13): 0.weight@0 0.bias@6 3.weight@9 3.bias@12", "-1 (6): 1.weight@0 1.bias@3"}));
}

TEST(ParameterSet, FrozenParametersHaveASeparateBuffer) {
  ParameterSet set = example();
  const Patterns freeze = {"0.*", "3.bias"};
  const Groups groups = {{"*.bias"}};
  set.lay_out(freeze, groups);
  EXPECT_EQ(layout(set),
            (Patterns{"0 (3): 1.bias@0", "1 (6): 1.weight@0 3.weight@3", "-1 (10): 0.weight@0 0.bias@6 3.bias@9"}));
  EXPECT_EQ(set.trainable_elements(), 9);
  EXPECT_EQ(set.elements(), 19);
  set.lay_out({}, {});  // starts from scratch
  EXPECT_EQ(set.trainable_elements(), 19);
}

std::string error(const Patterns& freeze, const Groups& groups, ParameterSet set = example()) {
  try {
    set.lay_out(freeze, groups);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    return error.message();
  }
  return "";
}

TEST(ParameterSet, ReportsAllPatternsThatMatchNothing) {
  constexpr const char* kNames =
      "; the names are 0.weight, 0.bias, 1.weight, 1.bias, …; `runner parameters RECIPE` lists all";
  EXPECT_EQ(error({"0.*", "9.*"}, {}),
            fmt::format("a pattern matches no parameter of the model: model.freeze: '9.*'{}", kNames));
  EXPECT_EQ(error({"x"}, {{"*.bias"}, {"weight", "y"}}),
            fmt::format("3 patterns match no parameter of the model: model.freeze: 'x', optimizer.groups[1].params: "
                        "'weight', optimizer.groups[1].params: 'y'{}",
                        kNames));
  EXPECT_EQ(error({"*"}, {}, ParameterSet()),
            "a pattern matches no parameter of the model: model.freeze: '*'; the model has none");
}

TEST(ParameterSet, WordsSelectNormsAndBiases) {
  ParameterSet set;
  set.add("0.weight", {2, 2}, {}, ParameterRole::kWeight);
  set.add("0.bias", {2}, {}, ParameterRole::kBias);
  set.add("1.weight", {2}, {}, ParameterRole::kNormWeight);
  set.add("1.bias", {2}, {}, ParameterRole::kNormBias);
  const auto selected = [&](std::string_view word) {
    std::vector<std::string> names;
    for (const Parameter& parameter : set.parameters())
      if (selects(word, parameter)) names.push_back(parameter.name);
    return names;
  };
  EXPECT_EQ(selected("norms"), (std::vector<std::string>{"1.weight", "1.bias"}));
  EXPECT_EQ(selected("biases"), (std::vector<std::string>{"0.bias", "1.bias"}));
  EXPECT_EQ(selected("*.weight"), (std::vector<std::string>{"0.weight", "1.weight"}));
}

TEST(ParameterSet, RejectsAGroupCoveredByEarlierOnes) {
  EXPECT_EQ(error({}, {{"*"}, {"1.*"}}),
            "optimizer.groups[1] has no effect: optimizer.groups[0] before it matches all its parameters; put the "
            "narrower group first");
  EXPECT_EQ(error({}, {{"0.weight"}, {"*.bias"}, {"1.bias", "0.weight"}}),
            "optimizer.groups[2] has no effect: optimizer.groups[0] and optimizer.groups[1] before it match all its "
            "parameters; put the narrower group first");
  EXPECT_EQ(error({"1.bias"}, {{"0.*"}, {"1.bias", "0.weight"}}),
            "optimizer.groups[1] has no effect: optimizer.groups[0] before it matches all its parameters that are not "
            "frozen; put the narrower group first");
  EXPECT_EQ(error({}, {{"1.*"}, {"*"}}), "");
  EXPECT_EQ(error({"1.*"}, {{"*"}, {"1.*"}}), "");  // frozen, not taken by an earlier group
}

TEST(ParameterSet, RequiresATrainableParameter) {
  EXPECT_EQ(error({"*"}, {}), "model.freeze leaves no parameter to train");
}

TEST(ParameterSet, RejectsDuplicateNames) {
  ParameterSet set = example();
  try {
    set.add("1.bias", {7}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "model: two parameters are named 1.bias");
  }
}

}  // namespace
}  // namespace runner::nn
