// Trains one run from recipe to recorded result: `exec` and `resume` without the command line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/loop/batch_fit.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/run/gpu_use.h"
#include "schema/recipe/recipe.h"
#include "store/provenance.h"
#include "store/run_store.h"

namespace runner::backends::tpu {
struct MetricsSnapshot;
}

namespace runner::train {

struct RunProgress {
  int64_t epoch = 0, epochs = 0;  // epoch counts from 0; epochs is 0 if the run's length is given in steps
  int64_t step = 0, steps = 0;    // optimizer steps finished, and of the whole run
  int64_t samples = 0;            // since the process started
  double loss = 0;                // last train/loss point, NaN before the first
};

// Notified of events, on the training thread or on another one while that thread waits. Callbacks must return quickly
// and must not throw.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(std::string_view /*run*/, std::string_view /*name*/) {}
  virtual void on_step(const RunProgress& /*progress*/) {}
  virtual void on_evaluation(const RunProgress& /*progress*/, const std::map<std::string, double>& /*metrics*/) {}
  virtual void on_warning(std::string_view /*text*/) {}
  virtual void on_print(std::string_view /*text*/) {}   // text printed by a hook
  virtual void on_notice(std::string_view /*text*/) {}  // about something that takes long
};

// Error of a run that was interrupted before anything was recorded.
inline constexpr const char* kInterruptedAtStart = "interrupted before the run began";

struct MetricRange {
  double last = 0, min = 0, max = 0;

  static auto parts(auto& self) { return std::tie(self.last, self.min, self.max); }
};

// Work of an emulated TPU in this attempt.
struct GraphUse {
  int64_t compiled = 0;  // graphs
  double compile_seconds = 0;
  int64_t executions = 0;
  double least_seconds = 0, most_seconds = 0;  // predicted device time of the executions
};

struct RunError {
  std::string message;  // with its notes
  std::string file;
  int line = 0;
  std::string text;  // the whole error with its place, for display
};

// The document of `exec --json`.
struct RunResult {
  std::string run;  // empty: not in the store
  std::string name;
  store::RunStatus status = store::RunStatus::kDone;
  int exit_code = 0;
  std::string backend;
  int64_t num_processes = 1;
  std::optional<FittedBatch> fitted_batch = {};  // train.auto_batch_size
  std::vector<std::vector<int>> cores = {};      // of each process, if pinned (enable_cpu_affinity)
  int64_t epochs = 0;                            // finished, including those before a resume
  int64_t optimizer_steps = 0;                   // finished optimizer steps
  int64_t skipped_steps = 0;
  int64_t unlabelled_steps = 0;  // of these, steps without any label; not counted with a loss scaler
  int64_t samples = 0;
  int64_t repeated_samples = 0;              // padding samples
  data::InputUse input = {};                 // of training on rank 0, by this process
  std::optional<GraphUse> graphs = {};       // of rank 0; none on other backends
  std::optional<GpuUse> gpu = {};            // none on other backends
  double seconds = 0;                        // from RunRequest::started until the last checkpoint is committed
  std::optional<double> first_step_seconds;  // from RunRequest::started until the first optimizer step is done
  std::map<std::string, MetricRange> metrics;
  std::vector<int64_t> states;  // kept checkpoints, oldest first
  PeakMemory peak_memory;       // of rank 0; 0 for a phase that did not occur
  // What estimate_steps() predicts for the same phases; none if the run is not done or a hook makes the steps.
  std::optional<PeakMemory> predicted_memory = {};
  std::vector<std::string> warnings;
  std::string reason;  // why it ended before its last step; otherwise empty
  std::optional<RunError> error;
  bool lost_process = false;  // another rank or its host was lost: the failure is not the run's own
};

struct ForkRequest;  // checkpoint/restore.h

struct RunRequest;
using Follow = std::function<void(const RunRequest& of_rank_0, backends::ProcessGroup& ranks)>;

// Where a run begins. Default: a new run.
struct RunOrigin {
  std::string resume = {};            // id of the run to continue; empty: none
  std::optional<int64_t> state = {};  // checkpoint from which it continues; none: the newest that is intact
  const ForkRequest* fork = nullptr;  // a new run that starts from a checkpoint of another; null: none
  bool longer = false;                // resumed with larger train.epochs or train.steps
  bool other_batches = false;         // resumed with another batch size or accumulation, but the same optimizer steps
  // The run is resumed after the loss of a process. If it has no checkpoint yet, it starts again, as `fork` says.
  bool may_begin_again = false;

  // Whether a checkpoint certainly replaces the initial weights.
  bool restores_weights() const { return !may_begin_again && (!resume.empty() || fork != nullptr); }
};

// Data that are recorded with a run. Unused on ranks other than 0.
struct RunRecording {
  std::filesystem::path store = {};
  store::RecipeRecord recipe = {};
  std::vector<store::Param> params = {};                      // flattened
  std::string (*summary)(const RunResult& result) = nullptr;  // makes the document stored with the run
  // Makes the stored document of a device's metrics report.
  std::string (*metrics_document)(const backends::tpu::MetricsSnapshot& metrics) = nullptr;
  bool has_batch_digests = false;   // see kBatchDigest
  std::string binary_version = {};  // of this program
  std::string build_id = {};        // identifies the build among those of one version
  // Provenance of the attempt; the run adds the hook.
  std::optional<store::Provenance> provenance = {};
  // Adds provenance that takes long to find out. Called once, on its own thread after the first step, or at the end of
  // a run without steps. Must not throw. Empty: adds nothing.
  std::function<void(store::Provenance&)> complete_provenance = {};
};

class MpiRanks;

// How rank 0 starts the other ranks.
struct RankStart {
  // Ranks that a launcher has started; null: none. They get the job, too.
  MpiRanks* mpi = nullptr;
  // For ranks that are processes: the job of each, from which it builds its own request for run_rank(), and the
  // executable.
  std::string job = {};
  std::string program = "/proc/self/exe";
  // For ranks that are threads: calls run_rank() with the same recipe, stop flag and data, and its own observer.
  Follow follow = {};
};

struct RunRequest {
  const schema::Recipe& recipe;
  std::vector<std::string> warnings = {};  // of the recipe
  bool warnings_are_shown = false;         // the observer has them already
  RunOrigin origin = {};
  RunRecording recording = {};
  RankStart rank_start = {};
  MakeHooks make_hooks = nullptr;  // makes the recipe's hook; null: it has none
  Observer& observer;
  // Where the durations of the result begin. One process may train several runs, each with its own start.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  const std::atomic<int>& stop;                  // 1: finish the optimizer step, save a checkpoint, return kInterrupted
  std::chrono::milliseconds long_compile{2000};  // compilations that take longer are reported
  data::SharedData data = {};                    // data of the recipe; null: not read yet
  // Cores of each rank for enable_cpu_affinity; empty: a share of those of this process.
  std::vector<std::vector<int>> cores = {};
  // Whether devices execute on threads of their own; none to decide by the number of free cores. For tests.
  std::optional<bool> own_thread = {};
};

// With RunRecording::has_batch_digests, recorded each step: the upper 53 bits of a hash of the sample ids of the
// optimizer step.
inline constexpr const char* kBatchDigest = "data/batch_digest";

// Kind of the artifacts with cycles of `profile`, in the order of their ids.
inline constexpr std::string_view kTraceKind = "trace";

// Trains. Errors after the run has been recorded are in the result (status, exit code, error). Throws Error for earlier
// ones: an invalid recipe or hook, invalid data, too little memory, or a store that cannot be opened. Their kind is not
// kRun.
RunResult run(const RunRequest& request);

// Returns the process group for a run of the recipe. Collective.
backends::ProcessGroup& begin_run_with(MpiRanks& ranks, const schema::Recipe& recipe);

// Trains as another rank; ignores origin, recording and rank_start of the request. Returns when rank 0 is done too.
// Errors are reported to rank 0 and thrown.
void run_rank(const RunRequest& request, backends::ProcessGroup& ranks);

}  // namespace runner::train
