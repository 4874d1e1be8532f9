// A run's life in the store: created, attempted, finished, annotated (store/removal.h removes it).
//
// A run is one experiment; an attempt is one process that works on it (the first, then one for each resume).  A run
// whose process is gone without a word keeps the status kRunning in the file and is read as kCrashed.
// Thread safety: as the Store given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/sha256.h"
#include "store/process.h"
#include "store/provenance.h"
#include "store/store.h"

namespace runner::store {

enum class RunStatus { kRunning, kDone, kFailed, kInterrupted, kCrashed };
// "running", "done", "failed", "interrupted", "crashed".
std::string_view to_string(RunStatus status);

// One leaf of the resolved recipe: key "optimizer.lr", a list element "model.hidden[0]".
struct Param {
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;  // monostate: null
  std::string key;
  Value value;
};

struct RecipeRecord {
  std::string hash;           // of the canonical form
  std::string text;           // the file as written
  std::string resolved_json;  // every default filled in
  std::string origins_json;   // key -> where its value comes from
};

// What the store keeps a recipe under, and checks it by.
Sha256Digest digest_of(const RecipeRecord& recipe);

// What is known when a process starts to work on a run.  Host, pid, start time and boot are added here.
struct AttemptInfo {
  RecipeRecord recipe;
  std::vector<Param> params;
  std::string backend;
  int64_t num_processes = 1;
  std::string cpu_features;  // text, e.g. "avx512f avx512_bf16"
  std::string kernels_json;  // which kernel computes what
  std::string binary_version;
  int64_t start_step = 0;                               // last finished step of the state it starts from
  int64_t start_ms = INT64_MAX;                         // younger points of that step will be recorded again
  std::optional<int64_t> from_state;                    // the state it starts from
  std::optional<int64_t> planned_steps = std::nullopt;  // of the whole run; none: not known
  std::optional<Provenance> provenance = std::nullopt;  // what is known of it by then
  int64_t started_ms = coarse_now_ms();                 // by the clock of its points; recorded some time later
};

struct RunInfo {
  std::string uid;  // new_run_uid()
  std::string name;
  int64_t seed = 0;
  std::string parent;  // uid of the run that it was forked from; empty: none
  AttemptInfo attempt;
};

// Names a run and the attempt that works on it.
struct RunHandle {
  int64_t id = 0;
  int64_t attempt = 0;  // from 1
  std::string uid;
};

struct RunEnd {
  RunStatus status = RunStatus::kDone;  // kDone, kFailed or kInterrupted
  int exit_code = 0;
  std::string reason;        // why it failed or stopped; empty when done
  std::string summary_json;  // the document that `exec --json` prints
};

// Ten characters of Crockford's base 32 in lower case: milliseconds since 2025 (8) and 10 bits of the process id (2),
// so that ids sort by time.  A process never repeats one; two processes do if they start a run in the same millisecond
// and their ids differ by a multiple of 1024.  Thread-safe.
std::string new_run_uid();

// Records a new run, its recipe, parameters and first attempt, status kRunning.  Throws Error(kStore).
RunHandle create_run(Store& store, const RunInfo& info);

// Records that this process resumes run `uid` after step info.start_step, and takes back what older attempts wrote
// beyond it: points are removed and summaries become exactly those of the points that remain; states and
// artifacts are marked superseded.  Throws Error(kUsage) if another process is still running it, Error(kNotFound) if it
// is not there or in the trash, Error(kStore).
RunHandle begin_attempt(Store& store, std::string_view uid, const AttemptInfo& info);

// Throws the Error(kNotFound) that tells how a run comes back from the trash.
[[noreturn]] void fail_trashed(std::string_view uid);

// Records how the attempt and the run ended, and how many points the attempt has dropped unless a heartbeat() has;
// synced when it returns.
void finish_run(Store& store, const RunHandle& run, const RunEnd& end,
                std::optional<int64_t> dropped_points = std::nullopt);

// Sign of life, for readers on other hosts, with the points that this attempt has dropped so far.
void heartbeat(Store& store, const RunHandle& run, int64_t dropped_points);

// Throws Error(kUsage) if another process is still running the run; `action` is what it is in the way of: "resume".
void check_not_running(Store& store, int64_t run_id, std::string_view action);

// Adding a tag twice and removing an absent one do nothing.
void add_tag(Store& store, int64_t run_id, std::string_view tag);
void remove_tag(Store& store, int64_t run_id, std::string_view tag);
void add_note(Store& store, int64_t run_id, std::string_view text);

}  // namespace runner::store
