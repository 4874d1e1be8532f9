// A recipe text trained in a temporary folder, for tests of whole runs.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/train/run.h"
#include "store/queries.h"
#include "tests/support/temp_folder.h"

namespace runner::train {

// Four epochs of five steps; what is logged and saved is added to it.
inline constexpr const char* kFourEpochs = R"(schema_version: 1
name: small
model: {type: mlp, hidden: [8]}
data:
  train: {format: synthetic, samples: 50, features: [5], classes: 3}
  eval: {format: synthetic, samples: 30, features: [5], classes: 3}
  batch_size: 10
optimizer: {type: adam, lr: 0.01}
train: {epochs: 4}
)";

class RunFixture : public ::testing::Test {
 protected:
  struct Options {
    std::string store = "runner.db";
    std::string resume = {};
    bool longer = false;
    std::string fork = {};  // id of the run to fork; `overrides` are what the child changes
    int64_t state = -1;     // of it; −1: the newest
    bool restart = false;
    bool stop_at_start = false;  // asks to stop when the run has begun
    std::vector<std::string> overrides = {};
    int64_t stop_after = 0;                      // asks to stop when this many windows are done
    std::atomic<int>* stop = nullptr;            // what asks; null: one of the run's own
    std::string replica_program = "/bin/false";  // of processes, told the resolved recipe: none by default
    std::function<void(const Observer::Progress&)> on_step = {};
    MakeHooks make_hooks = nullptr;
    std::vector<std::string>* notices = nullptr;   // where they go; null: nowhere
    std::chrono::milliseconds long_compile{2000};  // RunRequest
    std::optional<bool> own_thread = {};           // likewise
  };

  // Trains `recipe` (YAML) with the folder as the current one for its relative paths.
  RunResult train(const std::string& recipe, const Options& options);
  RunResult train(const std::string& recipe) { return train(recipe, Options{}); }

  std::filesystem::path path(const std::string& file) const { return folder_ / file; }
  void write(const std::string& file, const std::string& text) const;

  // The JSON texts of the newest run's events of a level.
  std::vector<std::string> events(const std::string& level) const;
  // The newest state of the newest run, section by section; the points of a metric.
  std::map<std::string, std::vector<std::byte>> last_state(const std::string& store = "runner.db") const;
  std::vector<std::pair<int64_t, double>> points(const std::string& metric,
                                                 const std::string& store = "runner.db") const;

 private:
  const support::TempFolder folder_;
};

}  // namespace runner::train
