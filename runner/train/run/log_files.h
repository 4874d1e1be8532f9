// Writes the points of a run to files in addition to the store: `log.tensorboard`, `log.jsonl` and `log.csv`.
//
// The store is authoritative; these files are for monitoring and collection. They are append-only, so that several runs
// may share a file: each line names run and attempt, and TensorBoard has one folder per run.
//
// Invariants: (1) The training thread hands over points and never waits for a file. (2) A file that cannot be written
// never ends a run. Its points wait in bounded memory and are retried; those missing at the end are counted. Thread
// safety: everything belongs to the training thread; an internal thread writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe.h"

namespace runner::train {

struct LogLimits {
  size_t waiting_points = size_t{1} << 18;         // not yet taken by the thread
  size_t waiting_bytes = size_t{16} << 20;         // per file
  std::chrono::milliseconds retry_every{250};      // while points are waiting
  std::chrono::milliseconds last_patience{2'000};  // for a pipe that accepts nothing, at the end
};

class LogFiles {
 public:
  // Creates folders and opens files. Checks that the TensorBoard folder accepts new files. Throws Error(kData) with
  // key, path and reason if a file cannot be written, is not such a log, or is named by two keys.
  explicit LogFiles(const schema::LogSpec& spec, LogLimits limits = {});
  // Writes what it can without waiting.
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  // Call before any points. `start_step`: last step of the checkpoint that an attempt resumes from; TensorBoard
  // discards later points. Throws like the constructor.
  void begin(std::string_view run, int64_t attempt, int64_t start_step);

  // Adds a point. It is written after the next hand_over().
  void add(std::string_view metric, int64_t step, double value);
  // Lets the thread write the added points. Free if there are none; otherwise takes a lock briefly.
  void hand_over();

  // Returns warnings about unwritable files since the last call. Usually empty, and then cheap.
  std::vector<std::string> take_warnings();

  // Returns a warning if existing files have some steps twice, because an attempt continues from `start_step` and an
  // earlier one recorded points up to `last_step`.
  std::optional<std::string> twice_written(int64_t start_step, int64_t last_step) const;

  // Writes waiting points. Afterwards take_warnings() also reports what is permanently missing.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether the recipe names log files.
bool has_log_files(const schema::LogSpec& spec);

}  // namespace runner::train
