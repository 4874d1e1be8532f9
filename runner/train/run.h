// One run from recipe to recorded result: what `exec` and `resume` do, without the command line around it.
//
// The words of this folder:
//   batch      what a Loader yields; with gradient accumulation a window has several.
//   window     the batches up to a step of the optimizer.  A run counts windows: they are its steps, in the recipe, in
//              points, in states and on the screen.
//   update     what an optimizer does to parameters and slots, once; it is skipped where something is not finite.
//   recording  a Program that grows as a declared model, or a hook, computes with it.
//   step       as the name of a Program: what is computed for one batch, in training from the recording of its forward
//              pass to sums and, at a window's end, the update (StepBuilder).
//   segment    a recording of a loop of a hook's own, from one cut to the next, be it a batch or not (Segment).
//   entry      what a hook file has in place of a part of the recipe: model, training_step, train, … (HookEntry).
//   state      all that a run goes on from: arrays, counters, what the hook keeps (checkpoint.h).
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

#include "backends/tpu/metrics_snapshot.h"
#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/train/loop/batch_fit.h"
#include "runner/train/record/gpu_use.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/memory_use.h"
#include "schema/recipe.h"
#include "schema/source_mark.h"
#include "store/provenance.h"
#include "store/run_store.h"

namespace runner::train {

// Told what happens, on the training thread, or on another while that one waits for it; must return quickly and not
// throw.
class Observer {
 public:
  struct Progress {
    int64_t epoch = 0, epochs = 0;  // epoch counts from 0; epochs 0: the run's length is given in steps
    int64_t step = 0, steps = 0;    // optimizer windows done, and of the whole run
    int64_t samples = 0;            // since the process started
    double loss = 0;                // the newest train/loss point, NaN before the first
  };

  virtual ~Observer() = default;
  virtual void on_start(std::string_view /*run*/, std::string_view /*name*/) {}
  virtual void on_step(const Progress& /*progress*/) {}
  virtual void on_evaluation(const Progress& /*progress*/, const std::map<std::string, double>& /*metrics*/) {}
  virtual void on_warning(std::string_view /*text*/) {}
  virtual void on_print(std::string_view /*text*/) {}   // a hook has something to say
  virtual void on_notice(std::string_view /*text*/) {}  // what takes long
};

struct MetricRange {
  double last = 0, min = 0, max = 0;
};

// What an emulated TPU has done, in this attempt.
struct GraphUse {
  int64_t compiled = 0;  // graphs
  double compile_seconds = 0;
  int64_t executions = 0;
};

struct RunError {
  std::string message;  // and its notes
  std::string file;
  int line = 0;
  std::string text;  // all of it with its place, as people read it
};

// The document of `exec --json`.
struct RunResult {
  std::string run;  // empty: it is not in the store
  std::string name;
  store::RunStatus status = store::RunStatus::kDone;
  int exit_code = 0;
  std::string backend;
  int64_t num_processes = 1;
  std::optional<FittedBatch> fitted_batch = {};  // train.auto_batch_size
  std::vector<std::vector<int>> cores = {};      // of each process, where they keep to some (enable_cpu_affinity)
  int64_t epochs = 0;                            // finished, those before a resumption included
  int64_t optimizer_steps = 0;                   // windows finished
  int64_t skipped_steps = 0;
  int64_t samples = 0;
  int64_t repeated_samples = 0;              // read once more, to fill up batches
  data::InputUse input = {};                 // of training on rank 0, by this process
  std::optional<GraphUse> graphs = {};       // of rank 0; none: on another backend
  std::optional<GpuUse> gpu = {};            // none: likewise
  double seconds = 0;                        // from the start of the process until the last state is committed
  std::optional<double> first_step_seconds;  // from the start of the process until the first window is done
  std::map<std::string, MetricRange> metrics;
  std::vector<int64_t> states;  // kept ones, oldest first
  PeakMemory peak_memory;       // of rank 0, 0: it has not done so
  std::vector<std::string> warnings;
  std::string reason;  // why it ended before its last step; empty otherwise
  std::optional<RunError> error;
  bool lost_process = false;  // a signal has ended one of the replicas: the run failed by no fault of its own
};

struct ForkRequest;  // forking.h

struct RunRequest;
using Follow = std::function<void(const RunRequest& of_rank_0, backends::Collectives& ranks)>;

struct RunRequest {
  const schema::Recipe& recipe;
  store::RecipeRecord record;              // as it goes into the store
  std::vector<store::Param> params;        // flattened
  std::vector<std::string> warnings = {};  // of the recipe
  std::filesystem::path store;
  std::string resume;                 // id of the run to continue; empty: a new run
  const ForkRequest* fork = nullptr;  // a new run that starts from a state of another; null: none
  bool longer = false;                // resumed, and train.epochs or train.steps is larger than before
  // Resumed since a process was lost: where the run has no state yet, it begins once more, as `fork` says.
  bool may_begin_again = false;
  MakeHooks make_hooks = nullptr;  // of the recipe; null: it has none
  Observer& observer;
  std::string (*summary)(const RunResult& result);  // the document that is kept with the run
  // What is kept of the metrics of a device that has such.
  std::string (*metrics_document)(const backends::tpu::MetricsSnapshot& metrics);
  const std::atomic<int>& stop;  // 1: finish the window, save a state, return kInterrupted
  bool record_batches = false;
  std::string binary_version = {};               // of this program, for the record
  std::string build_id = {};                     // tells builds of one version apart
  std::chrono::milliseconds long_compile{2000};  // after which a graph that is compiled is told of
  // What the attempt runs on and from, the hook aside, which the run adds: recorded with the attempt.
  std::optional<store::Provenance> provenance = {};
  // Adds what takes time to find out.  Called once, on a thread of its own after the first step, or at the end of a run
  // that has none; must not throw.  Empty: nothing is added.
  std::function<void(store::Provenance&)> complete_provenance = {};
  // Of other replicas that are processes: what each is told to do, from which it makes its own request for
  // run_replica(), and the program that it is.
  std::string job = {};
  std::string replica_program = "/proc/self/exe";
  // Of those that are threads: calls run_replica() with the same recipe, stop and data, and an observer of its own.
  Follow follow = {};
  data::SharedData data = {};  // of the recipe; null: not read yet
  // Whether devices work on threads of their own; none: where there are cores for them.  For tests.
  std::optional<bool> own_thread = {};
};

// Recorded each step where RunRequest::record_batches is set: the upper 53 bits of a hash of the window's sample ids.
inline constexpr const char* kBatchDigest = "data/batch_digest";

// The kind of artifacts that are cycles of `profile`, in the order of their ids.
inline constexpr std::string_view kTraceKind = "trace";

// Trains.  Everything that goes wrong once the run is recorded is in the result (status, exit code, error); what is
// found before, a recipe or data that cannot be used or a store that cannot be opened, is thrown as Error.
RunResult run(const RunRequest& request);

// Trains as one of the other replicas: uses recipe, hooks and no more of the request.  Returns when rank 0 is done,
// too. Whatever goes wrong is told to rank 0 and thrown.
void run_replica(const RunRequest& request, backends::Collectives& ranks);

// Seconds since the kernel started this process.
double seconds_since_process_start();

}  // namespace runner::train
