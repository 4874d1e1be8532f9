// Life cycle of a run in the store: create, attempt, finish, annotate. store/removal.h removes runs.
//
// A run is one experiment. An attempt is one process that executes it: the first one, and one for each resume. If a
// process ends without recording its end, the file keeps the status kRunning; readers report kCrashed. Thread safety:
// as for the given Store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/base/clock.h"
#include "schema/base/sha256.h"
#include "store/provenance.h"
#include "store/store.h"

namespace runner::store {

enum class RunStatus { kRunning, kDone, kFailed, kInterrupted, kCrashed };
std::string_view to_string(RunStatus status);

// A leaf of the resolved recipe. Keys look like "optimizer.lr" and "model.hidden[0]".
struct Param {
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;  // monostate: null
  std::string key;
  Value value;
};

struct RecipeRecord {
  std::string hash;           // hash of the canonical form
  std::string text;           // file as written
  std::string resolved_json;  // JSON with every default filled in
  std::string origins_json;   // JSON object from key to the origin of its value
};

// Returns the digest that is the key of a recipe in the store, and its checksum.
Sha256Digest digest_of(const RecipeRecord& recipe);

// Description of an attempt when its process starts. The store adds host, pid, process start time and boot id.
struct AttemptInfo {
  RecipeRecord recipe;
  std::vector<Param> params;
  std::string backend;
  int64_t num_processes = 1;
  std::string cpu_features;  // such as "avx512f avx512_bf16"
  std::string kernels_json;  // JSON object from operation to kernel
  std::string binary_version;
  int64_t start_step = 0;                               // last finished step of the checkpoint it starts from
  int64_t start_ms = INT64_MAX;                         // points of that step with a later time will be recorded again
  std::optional<int64_t> from_state;                    // id of the checkpoint it starts from
  std::optional<int64_t> planned_steps = std::nullopt;  // of the whole run; none if unknown
  std::optional<Provenance> provenance = std::nullopt;  // as far as known at the start
  int64_t started_ms = coarse_now_ms();                 // same clock as its points; recorded some time later
};

struct RunInfo {
  std::string uid;  // from new_run_uid()
  std::string name;
  int64_t seed = 0;
  std::string parent;  // uid of the run it was forked from; empty if none
  AttemptInfo attempt;
};

// Identifies a run and the attempt that executes it.
struct RunHandle {
  int64_t id = 0;
  int64_t attempt = 0;  // from 1
  std::string uid;
};

struct RunEnd {
  RunStatus status = RunStatus::kDone;  // kDone, kFailed or kInterrupted
  int exit_code = 0;
  std::string reason;        // why it failed or stopped; empty if done
  std::string summary_json;  // document printed by `exec --json`
};

// Returns a new run id: ten lower-case characters of Crockford's base 32 that sort by time. Eight encode the
// milliseconds since 2025, two encode 10 bits of the process id. Ids of one process never repeat. Two processes get the
// same id if they start a run in the same millisecond and their pids differ by a multiple of 1024. Thread-safe.
std::string new_run_uid();

// Records a new run with its recipe, parameters and first attempt; its status is kRunning. Throws Error(kStore).
RunHandle create_run(Store& store, const RunInfo& info);

// Records that this process resumes run `uid` after step `info.start_step`. Points that earlier attempts recorded later
// are removed and the summaries recomputed; later checkpoints and artifacts are marked superseded. Throws Error(kUsage)
// if another process is still running the run, Error(kNotFound) if it does not exist or is in the trash, or
// Error(kStore).
RunHandle begin_attempt(Store& store, std::string_view uid, const AttemptInfo& info);

// Throws Error(kNotFound), explaining how to restore the run from the trash.
[[noreturn]] void fail_trashed(std::string_view uid);

// Records the end of the attempt and thereby of the run. `dropped_points`: points that the attempt has dropped; none
// keeps the number from the last heartbeat(). Synced on return.
void finish_run(Store& store, const RunHandle& run, const RunEnd& end,
                std::optional<int64_t> dropped_points = std::nullopt);

// Records that the attempt is alive, for readers on other hosts. `dropped_points`: points dropped so far.
void heartbeat(Store& store, const RunHandle& run, int64_t dropped_points);

// Throws Error(kUsage) if another process is still running the run. `action`: verb for the message, such as "resume".
void check_not_running(Store& store, int64_t run_id, std::string_view action);

// Adding a tag that is present and removing one that is absent have no effect.
void add_tag(Store& store, int64_t run_id, std::string_view tag);
void remove_tag(Store& store, int64_t run_id, std::string_view tag);
void add_note(Store& store, int64_t run_id, std::string_view text);

}  // namespace runner::store
