// Which steps of a process are traced, and what becomes of what they record.
//
// The schedule is that of torch.profiler.schedule.  Steps are optimizer windows, counted from 0 in each process: a run
// that is resumed begins anew.  A cycle is traced in all replicas, which hand it to rank 0 at its end.
// Belongs to the training thread; other threads record what they do for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/collectives/collectives.h"
#include "backends/runtime/spans.h"
#include "schema/recipe.h"

namespace runner::train {

enum class ProfileAction {
  kNone,
  kWarmup,  // recorded, and thrown away
  kRecord,
  kRecordAndSave,  // the last step of a cycle
};

// What becomes of a step, counted from 0.
ProfileAction profile_action(const schema::ProfileSpec& spec, int64_t step);

class Profiler {
 public:
  // The calling thread and the loaders that it starts record from now on, if the first step is to be.  `spec` must
  // outlive it.
  explicit Profiler(const schema::ProfileSpec& spec);

  // Behind each step, in all replicas (`ranks`; null: there is one): the events of all where a cycle has ended, on rank
  // 0, else empty.  `number`: that of the step in the run.
  std::string end_step(int64_t number, backends::Collectives* ranks);
  // Training is over, as above: a cycle under way that has had a step is one.
  std::string end(backends::Collectives* ranks);

  // Spans of this process for which the newest cycle had no room.
  int64_t left_out() const { return left_out_; }

 private:
  void add_step(int64_t number);
  std::string take(backends::Collectives* ranks);
  void begin(ProfileAction before, ProfileAction now);
  ProfileAction action(int64_t step) const { return profile_action(spec_, step); }

  const schema::ProfileSpec& spec_;
  backends::SpanRecorder recorder_;
  const backends::RecordingThread recording_;
  int64_t step_ = 0;        // under way
  int64_t began_ns_ = 0;    // it
  bool has_steps_ = false;  // the cycle under way
  int64_t left_out_ = 0;
};

}  // namespace runner::train
