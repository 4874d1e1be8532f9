// The points of a run as they are recorded, in files besides the store: `log.tensorboard`, `log.jsonl` and `log.csv`.
//
// The store is the record; these are for whoever watches or collects.  They are only ever appended to, so that several
// runs may share a file: each line names run and attempt, and TensorBoard has a folder for each run.
// Invariants: (1) the training thread hands points over and never waits for a file; (2) a file that cannot be written
// never ends a run: what it misses waits in bounded memory, is tried again, and what is missing at the end is counted.
// Thread safety: all belongs to the training thread; a thread of its own writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe.h"

namespace runner::train {

struct LogLimits {
  size_t waiting_points = size_t{1} << 18;         // not yet taken by the thread
  size_t waiting_bytes = size_t{16} << 20;         // of each file
  std::chrono::milliseconds retry_every{250};      // where something waits
  std::chrono::milliseconds last_patience{2'000};  // with a pipe that takes nothing, at the end
};

class LogFiles {
 public:
  // Makes folders and opens files; the folder for TensorBoard must take new files.  Throws Error(kData) with key, path
  // and reason: a file that cannot be written, that is no such log, or that two keys name.
  explicit LogFiles(const schema::LogSpec& spec, LogLimits limits = {});
  // Writes what it can without waiting.
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  // Before all points: whose they are.  `start_step` is the last step of what an attempt goes on from: TensorBoard
  // forgets what it has beyond.  Throws as the constructor does.
  void begin(std::string_view run, int64_t attempt, int64_t start_step);

  // Takes a point; it is written behind the next hand_over().
  void add(std::string_view metric, int64_t step, double value);
  // Lets the thread write what was added.  Costs nothing where nothing was, else a short lock.
  void hand_over();

  // Texts about files that cannot be written since the last call; empty, and cheap, nearly always.
  std::vector<std::string> take_warnings();

  // What to warn of where an attempt goes on from `start_step` and an earlier one recorded points until `last_step`:
  // files that were there hold some steps twice.
  std::optional<std::string> twice_written(int64_t start_step, int64_t last_step) const;

  // Writes what waits; after it take_warnings() also tells what is missing for good.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether the recipe names any.
bool has_log_files(const schema::LogSpec& spec);

}  // namespace runner::train
