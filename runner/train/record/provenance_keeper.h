// What a run is recorded with besides its recipe: with the attempt what is known at once, the rest when it is.
//
// Belongs to the training thread; starts a thread of its own.
#pragma once

#include <optional>
#include <thread>

#include "runner/train/run.h"
#include "runner/train/step/hooks.h"
#include "store/provenance.h"
#include "store/run_writer.h"

namespace runner::train {

class ProvenanceKeeper {
 public:
  // `hooks` (null: none) must outlive this.
  ProvenanceKeeper(const RunRequest& request, const Hooks* hooks);

  // The request's, with the texts that the hook consists of; empty: nothing is recorded.
  const std::optional<store::Provenance>& known() const { return known_; }

  // The first call starts to find out what takes time; the writer gets all of it.
  void complete(store::RunWriter& writer);
  // Waits until that is done; a run that ends before its first step is recorded as well as any.  Adds what the hook
  // has required since.
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
