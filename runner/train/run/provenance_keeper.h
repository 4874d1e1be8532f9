// Collects where a run comes from, on a thread of its own: what takes long must not delay the first step.
#pragma once

#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "runner/data/data_file.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/run/run.h"
#include "store/provenance.h"
#include "store/run_writer.h"

namespace runner::train {

// Records the provenance of a run: what is known at once with the attempt, the rest later. Starts a thread of its own.
class ProvenanceKeeper {
 public:
  // `files`: of data and weights. `hooks`: null if there is no hook; it and `request` must outlive the object.
  ProvenanceKeeper(const RunRequest& request, std::vector<data::DataFile> files, const Hooks* hooks);

  // The request's provenance with the sources of the hook; none if nothing is recorded.
  const std::optional<store::Provenance>& known() const { return known_; }

  // On the first call, starts collecting what takes long. The writer then gets all of it.
  void complete(store::RunWriter& writer);
  // Waits until that is done, also for a run that ends before its first step. Adds files that the hook has read since.
  // `hurried`: digests of data files that take longer are left out.
  void finish(store::RunWriter& writer, bool hurried);

 private:
  void take_hook_sources();
  void collect(const std::stop_token& stop);

  const RunRequest& request_;
  const std::vector<data::DataFile> files_;
  const Hooks* const hooks_;
  std::optional<store::Provenance> known_;
  size_t hook_sources_ = 0;
  std::jthread collector_;
};

}  // namespace runner::train
