#include "runner/report/selftest.h"

#include <algorithm>

#include "runner/cli/command.h"
#include "runner/cli/scenarios/scenario.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

struct SelftestOptions : Options {
  std::vector<std::string> ids;  // prefixes; empty: all scenarios
  std::string backend;           // empty: all
};

constexpr Argument kSelftestArguments[] = {
    {"[ID ...]", "", "run only scenarios whose ids begin with ID, such as data or state/resume; default: all",
     &SelftestOptions::ids, Kind::kScenario},
    {"--backend", "cpu|gpu|tpu", "run on this backend only; default: on every backend", &SelftestOptions::backend}};

using scenarios::Scenario;

// Returns the scenarios whose id begins with one of the words; all if there are no words.
std::vector<Scenario> chosen(const std::vector<std::string>& words) {
  const std::span<const Scenario> scenarios = scenarios::selftest_scenarios();
  std::vector<Scenario> all(scenarios.begin(), scenarios.end());
  for (const std::string& word : words) {
    const auto fits = [&](const Scenario& scenario) { return scenario.id.starts_with(word); };
    RUN_CHECK(std::any_of(all.begin(), all.end(), fits), ErrorKind::kUsage,
              "no scenario id begins with {}; `runner selftest` without ids runs and lists all scenarios", word);
  }
  std::erase_if(all, [&](const Scenario& scenario) {
    const auto fits = [&](const std::string& word) { return scenario.id.starts_with(word); };
    return !words.empty() && std::none_of(words.begin(), words.end(), fits);
  });
  return all;
}

// Returns the backend of this name, or all if it is empty.
std::vector<scenarios::Backend> chosen_backends(const std::string& name) {
  std::vector<scenarios::Backend> chosen;
  for (const scenarios::Backend& backend : scenarios::backends())
    if (name.empty() || name == backend.name) chosen.push_back(backend);
  return chosen;
}

int selftest(const SelftestOptions& options, report::Output& out) {
  const std::vector<scenarios::Backend> backends = chosen_backends(options.backend);
  const train::ChildWatch watch;
  std::vector<report::ScenarioResult> results;
  for (const Scenario& scenario : chosen(options.ids)) {
    for (const scenarios::Backend& backend : backends) {
      if (!scenario.only.empty() && scenario.only != backend.name) continue;
      if (out.live()) out.redraw_line(fmt::format("{} on {}", scenario.id, backend.name));
      results.push_back(scenarios::run(scenario, "/proc/self/exe", backend, watch));
    }
  }
  if (out.live()) out.redraw_line("");
  out.colored_data(options.json ? report::selftest_document(results)
                                : report::selftest_text(results, out.data_width(), out.data_color()));
  return std::ranges::all_of(results, &report::ScenarioResult::passed) ? 0 : exit_code(ErrorKind::kRun);
}

}  // namespace

const Command kSelftestCommand{
    .name = "selftest",
    .group = Group::kSystem,
    .summary = "train scenarios on all backends, and compare the results with expected values",
    .details =
        "Exit code 1 if a check fails.  Runs small trainings as real processes in a temporary folder, in less\n"
        "than half a minute.  docs/selftest.md describes each scenario.",
    .arguments = kSelftestArguments,
    .examples =
        "runner selftest\n"
        "runner selftest --backend tpu\n"
        "runner selftest data process/trigger --json",
    .other_names = "test",
    .has_json = true,
    .action = action<selftest>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
