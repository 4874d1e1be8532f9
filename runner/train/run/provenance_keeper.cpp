#include "runner/train/run/provenance_keeper.h"

#include <new>
#include <string>
#include <utility>

#include "schema/base/secrets.h"
#include "schema/base/signals_blocked.h"

namespace runner::train {

ProvenanceKeeper::ProvenanceKeeper(const RunRequest& request, std::vector<data::DataFile> files, const Hooks* hooks)
    : request_(request), files_(std::move(files)), hooks_(hooks), known_(request.recording.provenance) {
  take_hook_sources();
  if (!known_) return;
  for (const data::DataFile& file : files_)
    known_->data.push_back({file.key, hide_secrets(file.path), file.rows, file.stamp.bytes, std::nullopt});
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
  if (!known_ || collector_.joinable()) return;
  const SignalsBlocked blocked;
  collector_ = std::jthread([this, &writer](const std::stop_token& stop) {
    try {
      collect(stop);
      writer.provenance(*known_);
    } catch (const std::bad_alloc&) {  // the run will report exhausted memory itself
    }
  });
}

void ProvenanceKeeper::collect(const std::stop_token& stop) {
  if (request_.recording.complete_provenance) request_.recording.complete_provenance(*known_);
  for (size_t i = 0; i < files_.size(); ++i)
    known_->data[i].digest = data::digest_of(files_[i], [&] { return stop.stop_requested(); });
}

void ProvenanceKeeper::finish(store::RunWriter& writer, bool hurried) {
  complete(writer);
  if (hurried) collector_.request_stop();
  if (collector_.joinable()) collector_.join();
  const size_t before = hook_sources_;
  take_hook_sources();
  if (hook_sources_ > before) writer.provenance(*known_);
}

}  // namespace runner::train
