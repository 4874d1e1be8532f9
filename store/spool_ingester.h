// Ingests a spool into its store from a separate thread while a run is recorded.
//
// The thread looks at the spool every second. It ingests when a checkpoint was saved, and every `every`, so that other
// hosts see the run's points and heartbeat. A store that stalls, is full or is locked only delays this. Thread safety:
// belongs to one thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/ingest.h"

namespace runner::store {

struct IngesterOptions {
  std::chrono::milliseconds look_every{1'000}, every{20'000};
  // How long finish() waits for a store that is locked or does not answer; more than kLockLimit.
  std::chrono::milliseconds patience{60'000};
  // Called by ~SpoolIngester if the thread is still waiting for a disk. It gets what the thread uses, which must live
  // until the process ends.
  std::function<void(std::shared_ptr<void>)> abandon = {};
};

class SpoolIngester {
 public:
  SpoolIngester(std::filesystem::path spool, std::filesystem::path store, IngesterOptions options = {});
  // Stops ingesting. Waits for the thread, but no longer than `patience` without progress.
  ~SpoolIngester();
  SpoolIngester(const SpoolIngester&) = delete;
  SpoolIngester& operator=(const SpoolIngester&) = delete;

  // Ingests everything. Call it once, when the run has ended. Returns the runs of the spool. Throws Error(kStore) if
  // the store cannot be used, or its disk does not answer for `patience`.
  std::vector<IngestedRun> finish();

  // Returns why the store could not be used since the last call, each message once. The locks of other processes count
  // as one message. Cheap if there are none.
  std::vector<std::string> take_failures();
  // Whether the thread has not ended, for example because the disk does not answer.
  bool is_stuck() const;

 private:
  struct Shared;

  bool wait_for_end();

  std::shared_ptr<Shared> shared_;
};

}  // namespace runner::store
