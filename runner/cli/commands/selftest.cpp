#include "runner/report/selftest.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "runner/cli/commands/commands.h"
#include "runner/cli/scenarios/scenario.h"
#include "runner/cli/scratch_folder.h"

namespace runner::cli {
namespace {

using scenarios::Scenario;

// Returns the scenarios whose id begins with one of the words; all if there are no words.
std::vector<Scenario> chosen(const std::vector<std::string>& words) {
  std::vector<Scenario> all = scenarios::all_scenarios();
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

report::ScenarioResult row_of(const Scenario& scenario, std::string_view backend) {
  return {.id = scenario.id,
          .source = scenario.source,
          .about = scenario.about,
          .backend = backend,
          .reason = scenario.reason,
          .figures = {}};
}

// Returns the backend of this name, or all if it is empty.
std::vector<scenarios::Backend> chosen_backends(const std::string& name) {
  std::vector<scenarios::Backend> chosen;
  for (const scenarios::Backend& backend : scenarios::backends())
    if (name.empty() || name == backend.name) chosen.push_back(backend);
  return chosen;
}

report::ScenarioResult run(const Scenario& scenario, const scenarios::Backend& backend,
                           const train::ChildWatch& watch) {
  const ScratchFolder folder("selftest");
  scenarios::Workbench bench(folder.path(), backend, watch);
  const auto start = std::chrono::steady_clock::now();
  try {
    scenario.check(bench);
  } catch (const std::out_of_range&) {  // the output lacks a part that the scenario reads
    bench.equal("output of the program", "incomplete", "complete");
  }
  report::ScenarioResult result = row_of(scenario, backend.name);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.figures = std::move(bench.figures);
  return result;
}

}  // namespace

int selftest(const Options& options, report::Output& out) {
  const std::vector<scenarios::Backend> backends = chosen_backends(options.backend);
  const train::ChildWatch watch;
  std::vector<report::ScenarioResult> results;
  for (const Scenario& scenario : chosen(options.words)) {
    if (scenario.check == nullptr) {
      results.push_back(row_of(scenario, ""));
      continue;
    }
    for (const scenarios::Backend& backend : backends) {
      if (!scenario.only.empty() && scenario.only != backend.name) continue;
      if (out.live()) out.talk(fmt::format("\r\033[K{} on {}", scenario.id, backend.name));
      results.push_back(run(scenario, backend, watch));
    }
  }
  if (out.live()) out.talk("\r\033[K");
  out.data(options.json ? report::selftest_document(results)
                        : report::selftest_text(results, out.data_width(), out.data_color()));
  return std::any_of(results.begin(), results.end(), [](const auto& result) { return result.failed(); })
             ? exit_code(ErrorKind::kRun)
             : 0;
}

}  // namespace runner::cli
