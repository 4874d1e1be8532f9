// Environment of a scenario: a folder, a default recipe, this program, and the comparison of results.
//
// Every training runs processes of this program, started like a user would start them. None of them outlives the
// workbench. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/scenarios/settings.h"
#include "runner/report/selftest.h"
#include "runner/train/run/child_watch.h"
#include "schema/base/json.h"

namespace runner::cli::scenarios {

// Result of a process of the program.
struct Ran {
  int exit_code = -1;  // 128 + the signal number if a signal ended it
  std::string out, err;
  double seconds = 0;
};

// A backend: settings that precede those of a scenario.
struct Backend {
  std::string_view name;
  std::vector<std::string_view> settings;
  std::vector<std::string_view> in_f32 = {};  // additional settings if the scenario does not set mixed_precision
};

class Workbench {
 public:
  // `program`: this program. `folder`: must exist and be empty.
  Workbench(std::filesystem::path program, std::filesystem::path folder, const Backend& backend,
            const train::ChildWatch& watch);

  // Access to files in the folder.
  void write(const std::string& name, std::string_view text) const;
  bool has(const std::string& name) const;
  int64_t lines(const std::string& name) const;

  // Runs `runner WORDS…` in the folder, with the store runner.db. A command that takes a recipe runs on the backend.
  Ran run(const Words& words) const;

  // Trains recipe.yaml (kRecipe in workbench.cpp, unless it was overwritten) with these settings under this name. An
  // exit code other than 0 is recorded as a failed check. Returns the document of `exec --json`.
  json::Value train(const std::string& name, const Words& settings);
  // Trains with `lua` as the hook. Each call check(acc, what, got, expected) in it records a check.
  json::Value train_with_hook(const std::string& name, std::string_view lua, const Words& settings);
  // Returns the document of `plan --json`.
  json::Value plan(const Words& settings);
  // Returns the samples of each epoch in the order in which the steps of all ranks read them, without padding.
  std::vector<std::vector<int64_t>> orders(const Words& settings, int epochs);
  // Returns the values of all points.
  std::vector<double> points(const std::string& run, const std::string& metric);

  // ---- checks -------------------------------------------------------------------------------------------------------

  void equal(const std::string& what, const std::string& got, const std::string& expected);
  void equal(const std::string& what, int64_t got, int64_t expected);
  // The difference of each number must be at most `tolerance` times the largest expected number.
  void close(const std::string& what, const std::vector<double>& got, const std::vector<double>& expected,
             double tolerance);
  void at_least(const std::string& what, double got, double least);
  void at_most(const std::string& what, double got, double most);
  // The process must fail with this exit code and a message that contains `says`.
  void refused(const std::string& what, const Ran& ran, int exit_code, const std::string& says);

  // A training killed three times and resumed must equal an uninterrupted one.
  void verify_resume(const std::string& what, const Words& settings);

  std::vector<report::Check> checks;

 private:
  Words on_backend(const Words& words) const;
  Words train_words(const std::string& name, const Words& settings) const;
  json::Value trained(const std::string& name, const Ran& ran);

  const std::filesystem::path program_, folder_;
  const Backend& backend_;
  const train::ChildWatch& watch_;
};

}  // namespace runner::cli::scenarios
