// Metrics of a whole evaluation with large lists.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>
#include <unistd.h>

#include "runner/lua/hook_table.h"
#include "runner/lua/runtime.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

namespace fs = std::filesystem;

// Returns the metrics of `code` in a hook with a memory limit of 8 MiB.
std::map<std::string, double> metrics(const std::string& code, const train::EvaluatedSet& set) {
  const fs::path file = fs::temp_directory_path() / fmt::format("runner-metrics-{}.lua", ::getpid());
  std::ofstream(file) << code;
  Runtime runtime({.folder = "", .budget = {.memory_bytes = size_t{8} << 20}, .print = nullptr});
  runtime.run_file(file);
  fs::remove(file);
  return whole_metrics(runtime, set);
}

train::EvaluatedSet classes(int64_t samples) {
  train::EvaluatedSet set{.samples = samples, .outputs = 2, .predictions = {}, .classes = {}, .targets = {}};
  for (int64_t i = 0; i < samples; ++i) {
    set.predictions.push_back(static_cast<float>(i));
    set.predictions.push_back(0.5F);
    set.classes.push_back(i % 2);
  }
  return set;
}

train::EvaluatedSet targets(int64_t samples) {
  train::EvaluatedSet set = classes(samples);
  set.classes.clear();
  set.targets = set.predictions;
  return set;
}

constexpr const char* kCode = R"(
  local function last(p, t)
    local target = t[#t]
    return p[#p][1] + (type(target) == "table" and target[2] or target)
  end
  return {a = last, b = last})";

// docs/lua.md documents the memory: S (88 + 16 N) bytes, or S (144 + 32 N) with targets. Each function of a hook may
// use almost all of the limit, one after the other.
TEST(WholeMetrics, MemoryMatchesTheDocumentation) {
  constexpr int64_t kBytes = 8 << 20, kOfClasses = 88 + 32, kOfTargets = 144 + 64;
  for (const int64_t each : {kOfClasses, kOfTargets}) {
    const auto set = [each](int64_t samples) { return each == kOfClasses ? classes(samples) : targets(samples); };
    const int64_t most = kBytes / each, fitting = most * 95 / 100;
    const auto row = static_cast<double>(fitting - 1);
    const double last = row + (each == kOfTargets ? 0.5 : static_cast<double>((fitting - 1) % 2));
    EXPECT_EQ(metrics(kCode, set(fitting)), (std::map<std::string, double>{{"a", last}, {"b", last}}));
    try {
      metrics(kCode, set(most + 1));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.message(),
                fmt::format("metrics: predictions and targets of {} samples with 2 outputs need 9 MiB as Lua lists, "
                            "limit 8 MiB; evaluate on fewer samples, or return a metric from evaluation_step",
                            most + 1));
    }
  }
  EXPECT_THROW(metrics("return {a = function(p, t) local q = {} for i = 1, #p do q[i] = {p[i][1], 1, 2, 3} end end}",
                       classes(kBytes / kOfClasses * 9 / 10)),
               Error)
      << "lists that a function creates count too";
}

}  // namespace
}  // namespace runner::lua
