// Recording of runs whose store is on a network file system: in a spool on a local disk, which is ingested into the
// store (store/spool.h, docs/decisions/103-network-stores.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/attempt.h"
#include "runner/cli/command.h"
#include "runner/report/output.h"
#include "runner/train/run/run.h"
#include "store/ingest.h"
#include "store/spool.h"
#include "store/spool_ingester.h"

namespace runner::cli {

// The file in which the attempts of a command are recorded: the store itself, or a spool of it. Not thread-safe.
class RecordingPlace {
 public:
  // If the store is on a network file system, makes a spool, copies into it the run that the attempt resumes or forks,
  // and begins to ingest. Throws Error(kStore) if the store or the spool cannot be used.
  RecordingPlace(const Attempt& attempt, const Options& options);
  // Removes a spool in which no attempt was recorded.
  ~RecordingPlace();
  RecordingPlace(const RecordingPlace&) = delete;
  RecordingPlace& operator=(const RecordingPlace&) = delete;

  const std::filesystem::path& file() const { return spool_ ? spool_->file() : store_; }

  // Warns if the run cannot be copied into the store at the moment, once for each reason.
  void report_delays(train::Observer& observer);
  // Ingests the rest of the run, removes the spool, and sets the numbers of the result's states to those in the store.
  // If that fails, the spool stays, and the result has exit code 5, or a warning if the run has failed itself.
  void finish(train::RunResult& result, train::Observer& observer);

 private:
  void fill(const Attempt& attempt);
  void finish_spool(train::RunResult& result);
  void report_failure(train::RunResult& result, train::Observer& observer, const Error& error) const;

  const std::filesystem::path store_;
  std::optional<store::Spool> spool_;  // none: the store is on a local disk
  int64_t attempts_ = 0;               // in the spool when it was filled
  std::optional<store::SpoolIngester> ingester_;
};

// A file that was ingested.
struct IngestedFile {
  std::filesystem::path file;
  std::vector<store::IngestedRun> runs;
  bool is_in_use = false;  // it is the spool of a process that is still running; nothing was done
};

// Passes everything on, and reports the delays of a place while the run is training.
class RecordingObserver : public train::Observer {
 public:
  RecordingObserver(train::Observer& observer, RecordingPlace& place) : observer_(observer), place_(place) {}

  void on_start(std::string_view run, std::string_view name) override { observer_.on_start(run, name); }
  void on_step(const train::RunProgress& progress) override {
    observer_.on_step(progress);
    place_.report_delays(observer_);
  }
  void on_evaluation(const train::RunProgress& progress, const std::map<std::string, double>& metrics) override {
    observer_.on_evaluation(progress, metrics);
  }
  void on_warning(std::string_view text) override { observer_.on_warning(text); }
  void on_print(std::string_view text) override { observer_.on_print(text); }
  void on_notice(std::string_view text) override { observer_.on_notice(text); }

 private:
  train::Observer& observer_;
  RecordingPlace& place_;
};

// Ingests a store or a spool into `store`. Removes a spool of `store` that has nothing else. Throws Error(kStore).
IngestedFile ingest_file(const std::filesystem::path& file, const std::filesystem::path& store);

// The run whose newest states a command is going to use.
struct NeededRun {
  std::string selector = {};           // as in the command line; empty: one of the next two says which
  std::string name = {}, parent = {};  // name of a run that is not a fork, or id of the parent of a fork
  bool may_be_running = false;
};

// Ingests the spools that processes have left, so that their runs can be found. Prints which. A spool that cannot be
// ingested is a warning, unless it has the needed run. If another process is ingesting that run, waits for up to 10 s.
// Throws Error(kStore) if the needed run cannot be ingested, and Error(kUsage) if it is running and must not be.
void ingest_left_spools(const Options& options, const NeededRun& needed, report::Output& out);
// Prints a note if there are such spools.
void note_left_spools(const Options& options, report::Output& out);

// Returns "run ID (NAME) was ingested from FILE" and the like.
std::string ingested_text(const store::IngestedRun& run, const std::filesystem::path& file);

}  // namespace runner::cli
