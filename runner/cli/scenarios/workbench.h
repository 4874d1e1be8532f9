// What a scenario works with: a folder, a recipe to start from, this program, and figures to compare.
//
// Every training is a real one, by processes of this program that are started as a user would start them; none outlives
// the workbench.  Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/selftest.h"
#include "runner/train/replicas/child_watch.h"
#include "schema/json.h"

namespace runner::cli::scenarios {

using Words = std::vector<std::string>;

// What a process of the program has done.
struct Ran {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out, err;
  double seconds = 0;
};

// Settings that win over the recipe's; those of `more` win over the others.
Words with(Words settings, const Words& more);
inline std::string processes(int count) {
  return "num_processes=" + std::to_string(count);
}

// What a scenario runs on: settings that go in front of a scenario's own.
struct Backend {
  std::string_view name;
  std::vector<std::string_view> settings;
  std::vector<std::string_view> in_f32 = {};  // and where a scenario says nothing of mixed precision
};

class Workbench {
 public:
  // The folder must exist and be empty.
  Workbench(std::filesystem::path folder, const Backend& backend, const train::ChildWatch& watch);

  // A file in the folder.
  void write(const std::string& name, std::string_view text) const;
  bool has(const std::string& name) const;
  int64_t lines(const std::string& name) const;

  // Runs `runner WORDS…` in the folder, whose runner.db is the store; what begins with a recipe, on the backend.
  Ran run(const Words& words) const;

  // Trains recipe.yaml (kRecipe in the source, unless it was written anew) with these settings under this name.  An
  // exit code other than 0 is a wrong figure.  Returns the document of `exec --json`.
  json::Value train(const std::string& name, const Words& settings);
  // Where `lua` is the hook: every line `figure(acc, what, got, wanted)` in it is one.
  json::Value train_with_hook(const std::string& name, std::string_view lua, const Words& settings);
  // The document of `plan --json`.
  json::Value plan(const Words& settings);
  // The values of every point.
  std::vector<double> points(const std::string& run, const std::string& metric);

  // ---- figures ------------------------------------------------------------------------------------------------------

  void equal(const std::string& what, const std::string& got, const std::string& wanted);
  void equal(const std::string& what, int64_t got, int64_t wanted);
  // Each within `tolerance` times the largest number wanted.
  void close(const std::string& what, const std::vector<double>& got, const std::vector<double>& wanted,
             double tolerance);
  void at_least(const std::string& what, double got, double least);
  void at_most(const std::string& what, double got, double most);
  // It fails with this exit code and says this.
  void refused(const std::string& what, const Ran& ran, int exit_code, const std::string& says);

  std::vector<report::Figure> figures;

 private:
  Words on_backend(const Words& words) const;
  Words train_words(const std::string& name, const Words& settings) const;
  json::Value trained(const std::string& name, const Ran& ran);

  const std::filesystem::path folder_;
  const Backend& backend_;
  const train::ChildWatch& watch_;
};

}  // namespace runner::cli::scenarios
