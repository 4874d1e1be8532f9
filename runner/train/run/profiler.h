// Traces selected steps of a process.
//
// The schedule is that of torch.profiler.schedule. Steps are optimizer steps, counted from 0 in each process, so a
// resumed run starts again at 0. A cycle is traced on all ranks, which send it to rank 0 at its end. Belongs to the
// training thread; other threads record the work they do for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backends/dist/process_group.h"
#include "backends/runtime/spans.h"
#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

enum class ProfileAction {
  kNone,
  kWarmup,  // recorded and discarded
  kRecord,
  kRecordAndSave,  // the last step of a cycle
};

// Returns the action for a step, counted from 0.
ProfileAction profile_action(const schema::ProfileSpec& spec, int64_t step);

class Profiler {
 public:
  // The calling thread, and loaders that it starts, record from now on if the first step is traced. `spec` must outlive
  // the object.
  explicit Profiler(const schema::ProfileSpec& spec);

  // Call after each step. Returns the events of all ranks on rank 0 if a cycle has ended, otherwise an empty string.
  // `number`: step number in the run. `ranks`: process group, or null for a single process. Collective.
  std::string end_step(int64_t number, backends::ProcessGroup* ranks);
  // Call at the end of training. Like end_step() for a cycle in progress that has a step.
  std::string end(backends::ProcessGroup* ranks);

  // Number of spans that did not fit into the last cycle's buffer, in this process.
  int64_t left_out() const { return left_out_; }

 private:
  void add_step(int64_t number);
  std::string take(backends::ProcessGroup* ranks);
  void begin(ProfileAction before, ProfileAction now);
  ProfileAction action(int64_t step) const { return profile_action(spec_, step); }

  const schema::ProfileSpec& spec_;
  backends::SpanRecorder recorder_;
  const backends::RecordingThread recording_;
  int64_t step_ = 0;        // in progress
  int64_t began_ns_ = 0;    // start of that step
  bool has_steps_ = false;  // whether the cycle in progress has steps
  int64_t left_out_ = 0;
};

// Stores the cycles that `profile` traces. All ranks take part.
class ProfilerCallback final : public Callback {
 public:
  // All arguments must outlive the object.
  ProfilerCallback(Profiler& profiler, const TrainState& state, RunRecord& record)
      : profiler_(profiler), state_(state), record_(record) {}

  void on_step_done() override { keep(profiler_.end_step(state_.step(), state_.session.ranks)); }
  void on_train_end(bool /*done*/) override { keep(profiler_.end(state_.session.ranks)); }
  // Stores what this rank alone has traced. Call after a failure.
  void end_alone() { keep(profiler_.end(/*ranks=*/nullptr)); }

 private:
  void keep(const std::string& events) {
    if (events.empty()) return;
    record_.keep_trace(events);
    if (profiler_.left_out() > 0)
      record_.warn(
          fmt::format("profile: too many spans in a cycle: {} of a process were dropped; reduce profile.active",
                      profiler_.left_out()));
  }

  Profiler& profiler_;
  const TrainState& state_;
  RunRecord& record_;
};

}  // namespace runner::train
