#include "runner/report/selftest.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/table.h"
#include "schema/base/duration.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

using Results = std::span<const ScenarioResult>;

const char* status_of(const ScenarioResult& result) {
  return result.passed() ? "passed" : "failed";
}

int64_t count_passed(Results results) {
  return std::ranges::count_if(results, &ScenarioResult::passed);
}

double seconds_of(Results results) {
  double seconds = 0;
  for (const ScenarioResult& result : results) seconds += result.seconds;
  return seconds;
}

std::string failed_checks(const ScenarioResult& result) {
  std::string text = fmt::format("\n{} on {}\n", result.id, result.backend);
  for (const Check& check : result.checks) {
    if (!check.passed) text += fmt::format("  {}: expected {}, got {}\n", check.what, check.expected, check.got);
  }
  return text;
}

}  // namespace

bool ScenarioResult::passed() const {
  return !checks.empty() && std::ranges::all_of(checks, &Check::passed);
}

std::string selftest_text(Results results, int width, bool color) {
  Table table({{"scenario"},
               {"backend"},
               {"result"},
               {"checks", Align::kRight},
               {"time", Align::kRight},
               {"source"},
               {"checks that"}});
  for (const ScenarioResult& result : results) {
    const auto passed = std::ranges::count_if(result.checks, &Check::passed);
    table.add({std::string(result.id),
               std::string(result.backend),
               {status_of(result), result.passed() ? Color::kGreen : Color::kRed},
               fmt::format("{}/{}", passed, result.checks.size()),
               duration_text(result.seconds),
               std::string(result.source),
               std::string(result.about)});
  }
  std::string text = table.render(width, color);
  for (const ScenarioResult& result : results) {
    if (!result.passed()) text += visible(failed_checks(result));
  }
  const int64_t passed = count_passed(results);
  return text + fmt::format("\n{} passed, {} failed, {}\n", passed, std::ssize(results) - passed,
                            duration_text(seconds_of(results)));
}

// `not_run`, `reason`, `wanted` and `right` are keys of earlier versions.
std::string selftest_document(Results results) {
  const auto check = [](const Check& c) {
    return json::Object{{"what", c.what},     {"got", c.got},         {"expected", c.expected},
                        {"passed", c.passed}, {"wanted", c.expected}, {"right", c.passed}};
  };
  const auto scenario = [&](const ScenarioResult& result) {
    return json::Object{{"id", std::string(result.id)},       {"source", std::string(result.source)},
                        {"about", std::string(result.about)}, {"backend", std::string(result.backend)},
                        {"status", status_of(result)},        {"reason", json::Value()},
                        {"seconds", result.seconds},          {"figures", json::list_of(result.checks, check)}};
  };
  const int64_t passed = count_passed(results);
  return json::text(json::Object{{"passed", passed},
                                 {"failed", std::ssize(results) - passed},
                                 {"not_run", 0},
                                 {"seconds", seconds_of(results)},
                                 {"scenarios", json::list_of(results, scenario)}});
}

}  // namespace runner::report
