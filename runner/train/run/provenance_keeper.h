// Records the provenance of a run: what is known at once with the attempt, the rest later.
//
// Belongs to the training thread; starts a thread of its own.
#pragma once

#include <optional>
#include <thread>

#include "runner/train/engine/hooks.h"
#include "runner/train/run/run.h"
#include "store/provenance.h"
#include "store/run_writer.h"

namespace runner::train {

class ProvenanceKeeper {
 public:
  // `hooks`: null if there is no hook; must outlive the object.
  ProvenanceKeeper(const RunRequest& request, const Hooks* hooks);

  // The request's provenance with the sources of the hook; none if nothing is recorded.
  const std::optional<store::Provenance>& known() const { return known_; }

  // On the first call, starts collecting what takes long. The writer then gets all of it.
  void complete(store::RunWriter& writer);
  // Waits until that is done, also for a run that ends before its first step. Adds files that the hook has read since.
  void finish(store::RunWriter& writer);

 private:
  void take_hook_sources();

  const RunRequest& request_;
  const Hooks* const hooks_;
  std::optional<store::Provenance> known_;
  size_t hook_sources_ = 0;
  std::jthread collector_;
};

}  // namespace runner::train
