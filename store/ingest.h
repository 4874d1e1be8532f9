// Copies runs between stores: from a spool into its store, from the store of another machine, or from a store on a
// network file system into a spool.
//
// A run is copied as a whole, in one transaction: afterwards the target's copy equals the source's, except that it
// keeps its trash mark, and has the tags and notes of both. Only rows that differ are written, and contents that the
// target has are not copied. Runs are equal by their id, attempts by number and process, checkpoints and artifacts by
// attempt, step, time and digest. Numbers of checkpoints are kept if they are free in the target. Thread safety: as for
// the given Stores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "schema/base/error.h"
#include "store/store.h"

namespace runner::store {

enum class IngestResult {
  kCopied,
  kUnchanged,  // the target had everything
  kOlder,      // the target's copy was continued after the source's; nothing was changed
};

struct IngestedRun {
  std::string uid, name;
  IngestResult result = IngestResult::kCopied;
  int64_t states = 0;              // checkpoints that were copied
  std::vector<int64_t> kept = {};  // numbers of the target's checkpoints that are not superseded, oldest first
  bool has_unseen = false;         // kOlder: the source's last attempt recorded more than the target's copy of it has
};

// A run was continued in both stores, so that neither copy can replace the other.
class ContinuedTwice : public Error {
 public:
  using Error::Error;
};

// Called now and then while data are copied, to show that the target's disk answers.
using IngestProgress = std::function<void()>;

// Copies the runs of `source` that are not in its trash into `target`, which is created if it does not exist. Contents
// are copied before the transaction in parts, between which other processes can use both files. Every commit is synced
// on return. Throws Error(kStore) if a file cannot be used, the source's layout is not this program's, its contents are
// damaged, and ContinuedTwice if a run was continued in both stores. Runs before that one stay copied.
std::vector<IngestedRun> ingest(const std::filesystem::path& source, const std::filesystem::path& target,
                                const IngestProgress& progress = {});

// How a copy of a run in a spool is used.
enum class CheckOut {
  kResume,
  kFork,  // as a parent only: it is in the spool's trash, so it is not ingested
};
// Copies run `uid` into a spool that does not have it, without artifacts, tags and notes. Of its checkpoints only
// `states` get their contents. ingest() ignores the others, if the target does not have them. The numbers of
// checkpoints are kept if the spool is empty. Contents are copied in parts, between which other processes can use the
// source. Throws Error(kNotFound) if the source does not have the run, and like ingest().
void check_out(const std::filesystem::path& source, const std::string& uid, const std::vector<int64_t>& states,
               CheckOut use, Store& spool);

// Copies the compiled graphs that the target lacks, and their last use.
void copy_compiled_graphs(Store& source, Store& target);

// Makes the numbers of new checkpoints in `spool` larger than all that `store` has ever had.
void continue_state_numbers(Store& store, Store& spool);

}  // namespace runner::store
