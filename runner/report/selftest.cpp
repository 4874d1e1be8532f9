#include "runner/report/selftest.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/table.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

using Results = std::span<const ScenarioResult>;

struct Status {
  const char* name;
  Color color;
  bool (*fits)(const ScenarioResult& result);
};

constexpr Status kPassed{"passed", Color::kGreen, [](const ScenarioResult& r) { return r.passed(); }};
constexpr Status kFailed{"failed", Color::kRed, [](const ScenarioResult& r) { return r.failed(); }};
constexpr Status kNotRun{"not run", Color::kYellow, [](const ScenarioResult& r) { return !r.is_run(); }};

const Status& status_of(const ScenarioResult& result) {
  return result.passed() ? kPassed : result.is_run() ? kFailed : kNotRun;
}

int64_t count(Results results, const Status& status) {
  return std::count_if(results.begin(), results.end(), status.fits);
}

double seconds_of(Results results) {
  double seconds = 0;
  for (const ScenarioResult& result : results) seconds += result.seconds;
  return seconds;
}

std::string figures_text(const ScenarioResult& result) {
  std::string text = fmt::format("\n{} on {}\n", result.id, result.backend);
  for (const Figure& figure : result.figures) {
    if (!figure.right) text += fmt::format("  {0}: expected {2}, got {1}\n", figure.what, figure.got, figure.wanted);
  }
  return text;
}

}  // namespace

bool ScenarioResult::passed() const {
  return is_run() && !figures.empty() && std::ranges::all_of(figures, &Figure::right);
}

std::string selftest_text(Results results, int width, bool color) {
  Table table({{"SCENARIO"},
               {"BACKEND"},
               {"RESULT"},
               {"CHECKS", Align::kRight},
               {"TIME", Align::kRight},
               {"SOURCE"},
               {"CHECKS THAT"}});
  for (const ScenarioResult& result : results) {
    const Status& status = status_of(result);
    const auto right = std::ranges::count_if(result.figures, &Figure::right);
    table.add({std::string(result.id),
               std::string(result.backend),
               {status.name, status.color},
               result.is_run() ? fmt::format("{}/{}", right, result.figures.size()) : "",
               result.is_run() ? duration_text(result.seconds) : "",
               std::string(result.source),
               result.is_run() ? std::string(result.about) : fmt::format("{}: {}", result.about, result.reason)});
  }
  std::string text = table.render(width, color);
  for (const ScenarioResult& result : results) {
    if (result.failed()) text += figures_text(result);
  }
  return text + fmt::format("\n{} passed, {} failed, {} not run, {}\n", count(results, kPassed),
                            count(results, kFailed), count(results, kNotRun), duration_text(seconds_of(results)));
}

std::string selftest_document(Results results) {
  const auto figure = [](const Figure& f) {
    return json::Object{{"what", f.what}, {"got", f.got}, {"wanted", f.wanted}, {"right", f.right}};
  };
  const auto scenario = [&](const ScenarioResult& result) {
    return json::Object{{"id", std::string(result.id)},       {"source", std::string(result.source)},
                        {"about", std::string(result.about)}, {"backend", json::or_null(std::string(result.backend))},
                        {"status", status_of(result).name},   {"reason", json::or_null(std::string(result.reason))},
                        {"seconds", result.seconds},          {"figures", json::list_of(result.figures, figure)}};
  };
  return json::text(json::Object{{"passed", count(results, kPassed)},
                                 {"failed", count(results, kFailed)},
                                 {"not_run", count(results, kNotRun)},
                                 {"seconds", seconds_of(results)},
                                 {"scenarios", json::list_of(results, scenario)}});
}

}  // namespace runner::report
