#include "runner/train/run/provenance_keeper.h"

#include <new>
#include <utility>

#include "schema/base/signals_blocked.h"

namespace runner::train {

ProvenanceKeeper::ProvenanceKeeper(const RunRequest& request, const Hooks* hooks)
    : request_(request), hooks_(hooks), known_(request.provenance) {
  take_hook_sources();
}

void ProvenanceKeeper::take_hook_sources() {
  if (!known_ || hooks_ == nullptr) return;
  std::vector<HookSource> sources = hooks_->sources();
  for (; hook_sources_ < sources.size(); ++hook_sources_) {
    HookSource& source = sources[hook_sources_];
    known_->sources.push_back({std::string(store::kHookSource), std::move(source.path), std::move(source.text)});
  }
}

void ProvenanceKeeper::complete(store::RunWriter& writer) {
  if (!known_ || !request_.complete_provenance || collector_.joinable()) return;
  const SignalsBlocked blocked;
  collector_ = std::jthread([this, &writer] {
    try {
      request_.complete_provenance(*known_);
      writer.provenance(*known_);
    } catch (const std::bad_alloc&) {  // the run will report exhausted memory itself
    }
  });
}

void ProvenanceKeeper::finish(store::RunWriter& writer) {
  complete(writer);
  if (collector_.joinable()) collector_.join();
  const size_t before = hook_sources_;
  take_hook_sources();
  if (hook_sources_ > before) writer.provenance(*known_);
}

}  // namespace runner::train
