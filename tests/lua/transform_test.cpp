// The entry `transform` of a hook: its results, and the isolation of samples from each other.
#include "runner/lua/transform.h"

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/data/random.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

class TransformTest : public ::testing::Test {
 protected:
  TransformTest() {
    recipe_.hooks = "h.lua";
    recipe_.seed = 5;
    recipe_.vars.emplace_back("noise", schema::Value(0.5));
  }

  std::unique_ptr<data::Transform> make(const std::string& code, const std::string& tools = "") {
    return make_transform(recipe_, {{"h.lua", code}, {"tools.lua", tools}},
                          [this](std::string_view line) { printed_ += std::string(line) + "\n"; });
  }

  // A hook whose transform is `body`, with file-level values that it might change.
  static std::string hook(const std::string& body) {
    return R"(local nn = require "nn"
local count, cache, list, deep = 0, {}, {1, 2, 3}, {inner = {1}}
local nan = 0 / 0
local it = ("abc"):gmatch(".")
local function bump() count = count + 1 end
function helper(x) return 2 * x end
return {transform = function(sample)
  local f = sample.features
  )" + body +
           "\nend}\n";
  }

  // Applies the transform to sample `id`, which has features (10 id + 1, 10 id + 2, …).
  std::vector<float> apply(data::Transform& transform, int64_t id, int64_t epoch = 0, int64_t batch = 0) {
    std::vector<float> features;
    for (int64_t i = 1; i <= shape_.elements(); ++i) features.push_back(static_cast<float>(10 * id + i));
    transform.apply({.shape = shape_,
                     .features = features,
                     .label = id % 3,
                     .targets = targets_,
                     .id = id,
                     .epoch = epoch,
                     .batch = batch});
    return features;
  }

  // Returns "line: message" of the error for the first sample, id 7.
  std::string error(const std::string& body) {
    try {
      apply(*make(hook(body)), 7);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRun);
      EXPECT_EQ(error.where().file, "h.lua");
      EXPECT_TRUE(std::string(error.what()).ends_with("\n  note: in transform, sample 7 of epoch 0")) << error.what();
      return fmt::format("{}: {}", error.where().line, error.message());
    }
    return "no error";
  }

  schema::Recipe recipe_;
  backends::Shape shape_{2, 2};
  std::vector<float> targets_;
  std::string printed_;
};

using Floats = std::vector<float>;

TEST_F(TransformTest, InterruptionShortensTheBudget) {
  const auto transform = make_transform(
      recipe_, {{"h.lua", hook("while sample.id > 0 do end")}}, [](std::string_view) {}, [] { return true; });
  apply(*transform, 0);
  try {
    apply(*transform, 1);
    FAIL();
  } catch (const Error& error) {
    // A slow machine reaches the second limit first.
    const std::regex expected(
        "the hook has run for (100 million Lua instructions|1 s of CPU time) after the run was interrupted: is there "
        "an "
        "endless loop\\?");
    EXPECT_TRUE(std::regex_match(error.message(), expected)) << error.message();
  }
}

TEST_F(TransformTest, ChangesFeaturesInThreeWays) {
  EXPECT_EQ(apply(*make(hook("")), 1), (Floats{11, 12, 13, 14}));
  EXPECT_EQ(apply(*make(hook("for i = 1, #f do f[i] = helper(f[i]) end")), 1), (Floats{22, 24, 26, 28}));
  EXPECT_EQ(apply(*make(hook("f[1], f[4] = f[4], f[1] return f")), 1), (Floats{14, 12, 13, 11}));
  EXPECT_EQ(apply(*make(hook("sample.features = {4, 3, 2, 1} return sample")), 1), (Floats{4, 3, 2, 1}));
  EXPECT_EQ(apply(*make(hook("return {list[1], -0.5, 1e300, nan}")), 1).at(1), -0.5F);
  const auto swaps = make(hook("if sample.id == 1 then return {f[2], f[1], f[4], f[3]} end"));
  EXPECT_EQ(apply(*swaps, 1), (Floats{12, 11, 14, 13}));
  EXPECT_EQ(apply(*swaps, 2), (Floats{21, 22, 23, 24}));
}

TEST_F(TransformTest, ReceivesTheSample) {
  EXPECT_EQ(apply(*make(hook("return {sample.id, sample.epoch, sample.label, sample.vars.noise}")), 5, 9),
            (Floats{5, 9, 2, 0.5}));
  EXPECT_EQ(apply(*make(hook("return {#sample.shape, sample.shape[1], sample.shape[2], #f}")), 5),
            (Floats{2, 2, 2, 4}));
  targets_ = {0.25F, 8};
  EXPECT_EQ(
      apply(*make(hook("return {#sample.label, sample.label[1], sample.label[2], math.type(f[1]) == 'float' and 1 "
                       "or 0}")),
            5),
      (Floats{2, 0.25F, 8, 1}));
}

TEST_F(TransformTest, LoadsTheLibrariesOfTheHook) {
  const std::string code =
      "local nn, optim = require 'nn', require 'optim'\nlocal relu = nn.ReLU()\n"
      "return {transform = function(s) end, model = function() return nn.Linear(4, 2) end}";
  EXPECT_EQ(apply(*make(code), 1), (Floats{11, 12, 13, 14}));
}

TEST_F(TransformTest, RequireWorksOnlyAtFileLevel) {
  const std::string code =
      "local tools = require 'tools'\nreturn {transform = function(s) s.features[1] = tools.one end}";
  EXPECT_EQ(apply(*make(code, "return {one = 1}"), 3).at(0), 1);
  const std::string late = "return {transform = function(s) s.features[1] = require('tools').one end}";
  try {
    apply(*make(late, "return {one = 1}"), 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "transform requires tools.lua when it is called; require it at the beginning of the file");
  }
}

TEST_F(TransformTest, RejectsInvalidResults) {
  const struct {
    const char* body;
    const char* error;
  } kCases[] = {
      {"return {f[1], f[2], f[3]}", "7: transform returned 3 features, expected 4"},
      {"table.remove(f) return f", "7: transform returned 3 features, expected 4"},
      {"table.remove(f)", "7: transform left 3 features, expected 4"},
      {"f[5] = 3", "7: transform left 5 features, expected 4"},
      {"f[2] = nil", "7: transform left 3 features, expected 4"},
      {"f[2], f[5] = nil, 1", "7: transform left nil as feature 2, expected a number"},
      {"f[2] = '1'", "7: transform left string as feature 2, expected a number"},
      {"f.note = 3", "7: transform left features with the key 'note', expected the indices 1 to 4"},
      {"f[0] = 3", "7: transform left features with the key 'number', expected the indices 1 to 4"},
      {"setmetatable(f, {})", "7: transform left features with a metatable"},
      {"return 3", "7: transform returned number, expected nothing, the sample, or a list of 4 features"},
      {"sample.features = 3", "7: transform left number, expected in sample.features a list of 4 features"},
      {"return {features = f}", "7: transform returned features with the key 'features', expected the indices 1 to 4"},
      {"sample.feature = f", "7: sample: unknown entry 'feature'; did you mean features?"},
      {"sample.label = 0", "7: transform changes sample.label: only sample.features may be changed"},
      {"sample.id = nil", "7: transform changes sample.id: only sample.features may be changed"},
      {"sample.epoch = 1", "7: transform changes sample.epoch: only sample.features may be changed"},
      {"sample.shape[3] = 1", "7: transform changes sample.shape: only sample.features may be changed"},
      {"sample.shape = {2, 2}", "7: transform changes sample.shape: only sample.features may be changed"},
      {"sample.vars = {}", "7: transform changes sample.vars: only sample.features may be changed"},
      {"setmetatable(sample, {})", "7: transform changes sample itself: only sample.features may be changed"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error(c.body), c.error) << c.body;
  targets_ = {1, 2};
  EXPECT_EQ(error("sample.label[2] = 3"), "7: transform changes sample.label: only sample.features may be changed");
}

TEST_F(TransformTest, ExplainsUnavailableNames) {
  const std::string own =
      "it runs in its own Lua state and gets samples in any order; use sample.id, sample.epoch and math.random";
  const std::string tensors =
      " is not available in transform: it computes with tensors, but transform gets the numbers of sample.features";
  EXPECT_EQ(error("return acc.step"),
            "9: acc is not available in transform: " + own + "; sample.vars has the recipe's vars");
  EXPECT_EQ(error("return nn.relu(f)"), "9: nn.relu" + tensors);
  EXPECT_EQ(error("return nn.tensor(f):relu()"), "9: nn.tensor" + tensors);
  EXPECT_EQ(error("return nn.ReLU()(f)"), "9: the output of a module is only available in steps and events");
  EXPECT_EQ(error("return io.read()"),
            "9: io is not available in hooks: hooks cannot read or write files; use acc:print and acc:log");
  EXPECT_EQ(error("return nothing.x"), "9: attempt to index a nil value (global 'nothing')");
  for (const char* body : {"total = 1", "_G.total = 1", "helper = nil", "function helper() end", "_ENV.helper = 1"}) {
    const std::string name = std::string(body).find("total") == std::string::npos ? "helper" : "total";
    EXPECT_EQ(error(body),
              "9: transform sets the global '" + name + "', which is not shared with the rest of the hook: " + own);
  }
}

// All ways to carry data from one sample to the next.
TEST_F(TransformTest, DetectsDataCarriedBetweenSamples) {
  const struct {
    const char* body;
    const char* name;
  } kCases[] = {
      {"count = count + 1", "count"},
      {"bump()", "count"},
      {"cache[sample.id] = true", "cache[7]"},
      {"cache.last = f", "cache.last"},
      {"list[2] = 5", "list[2]"},
      {"list[3] = nil", "list[3]"},
      {"table.sort(list, function(a, b) return a > b end)", "list[1]"},
      {"deep.inner[1] = 2", "deep.inner[1]"},
      {"deep.inner = {1}", "deep.inner"},
      {"setmetatable(list, {})", "the metatable of list"},
      {"sample.vars.noise = 1", "sample.vars.noise"},
      {"it()", "it"},
      {"bump = print", "bump"},
      {"rawset(_G, 'total', 1)", "_G.total"},
      {"math.twice = 2", "math.twice"},
      {"string.upper = nil", "string.upper"},
      {"_ENV = {}", "_ENV"},
      {"count = 1 pcall(error)", "count"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(error(c.body),
              fmt::format("7: transform changes '{}', which is not shared with the rest of the hook: it runs in its "
                          "own Lua state and gets samples in any order; use sample.id, sample.epoch and math.random",
                          c.name))
        << c.body;
  }
  EXPECT_EQ(error("nn.mine = 1"), "9: nn.mine cannot be set; keep your own values in a local table");
  // Local values may change.
  EXPECT_EQ(error("local n, t = 0, {} local function add() n = n + 1 t[n] = n end for i = 1, 9 do add() end nan = nan"),
            "no error");
  EXPECT_EQ(error("local co = coroutine.wrap(function() coroutine.yield(4) end) f[1] = co()"), "no error");
  EXPECT_EQ(error("count = count + 1 count = count - 1"), "no error");
}

TEST_F(TransformTest, RejectsACoroutineFromOutside) {
  try {
    make(
        "local next_value = coroutine.wrap(function() while true do coroutine.yield(1) end end)\n\n"
        "return {transform = function(sample) sample.features[1] = next_value() end}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_STREQ(error.what(),
                 "h.lua:3: transform uses a coroutine, next_value, which would carry state from sample to sample; "
                 "create it inside transform");
  }
}

// Comparing ten thousand values after each sample would be expensive, but changes must still be found soon.
TEST_F(TransformTest, DetectsChangesOfLargeTablesSoon) {
  const std::string code =
      "local big = {}\nfor i = 1, 10000 do big[i] = i end\n"
      "return {transform = function(sample) if sample.id == 0 then big[9999] = 0 end end}";
  for (const int64_t when : {1, 2, 3, 100, 1030}) {
    const auto transform = make(code);
    int64_t call = 0, epoch = 0;
    const auto calls_until_found = [&]() -> int64_t {
      for (;; ++call) {
        try {
          apply(*transform, call == when ? 0 : call + 1, epoch);
        } catch (const Error& error) {
          EXPECT_TRUE(error.message().starts_with("transform changes 'big[9999]'")) << error.message();
          return call - when;
        }
        if (call > 5000) return call;
      }
    };
    EXPECT_LE(calls_until_found(), std::min<int64_t>(when + 1, 700)) << when;
  }
  // At the latest after the first sample of the next epoch.
  const auto transform = make(code);
  for (int64_t call = 0; call < 40; ++call) apply(*transform, call == 33 ? 0 : call + 1);
  EXPECT_THROW(apply(*transform, 5, 1), Error);
}

TEST_F(TransformTest, RandomNumbersDependOnSeedEpochAndSample) {
  const std::string code =
      "local at_file = math.random()\n"
      "return {transform = function(sample) return {math.random(), math.random(), math.random(6), at_file} end}";
  const auto one = make(code), other = make(code);
  const auto drawn = [&](int64_t id, int64_t epoch, uint32_t number) {
    const data::Block block =
        data::random_block(5, data::Stream::kTransform, static_cast<uint64_t>(id | epoch << 32), number);
    return static_cast<float>(static_cast<double>((block[0] | static_cast<uint64_t>(block[1]) << 32) >> 11) * 0x1p-53);
  };
  std::vector<Floats> forward, backward;
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    for (int64_t id = 0; id < 20; ++id) forward.push_back(apply(*one, id, epoch));
  for (int64_t epoch = 2; epoch >= 0; --epoch)
    for (int64_t id = 19; id >= 0; --id) backward.push_back(apply(*other, id, epoch));
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward[45][0], drawn(5, 2, 0));
  EXPECT_EQ(forward[45][1], drawn(5, 2, 1));
  for (size_t i = 1; i < forward.size(); ++i) {
    EXPECT_NE(forward[i][0], forward[i - 1][0]);
    EXPECT_EQ(forward[i][3], forward[0][3]) << "a random number at file level is drawn once";
  }
  recipe_.seed = 6;
  EXPECT_NE(apply(*make(code), 0), forward[0]);
}

TEST_F(TransformTest, OutputAppearsWhenTheBatchIsTaken) {
  const auto transform = make("print('at file level')\nreturn {transform = function(s) print(s.id, s.epoch) end}");
  for (int64_t id = 0; id < 6; ++id) apply(*transform, id, 1, id / 2);
  EXPECT_EQ(printed_, "");
  transform->pass_on(0);
  EXPECT_EQ(printed_, "0\t1\n1\t1\n");
  transform->pass_on(2);
  EXPECT_EQ(printed_, "0\t1\n1\t1\n2\t1\n3\t1\n4\t1\n5\t1\n");
}

}  // namespace
}  // namespace runner::lua
