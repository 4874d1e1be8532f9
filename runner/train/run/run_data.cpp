#include "runner/train/run/run_data.h"

#include <memory>
#include <optional>
#include <string>

#include "runner/formats/reading_watch.h"
#include "runner/train/run/checkpoint/restore.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/host_data.h"
#include "schema/base/error.h"
#include "store/queries.h"
#include "store/state_store.h"

namespace runner::train {
namespace {

std::optional<data::Encoding> known_encoding(const RunRequest& request) {
  const RunOrigin& origin = request.origin;
  if (origin.resume.empty() && origin.fork == nullptr) return std::nullopt;
  try {
    store::Store store = store::Store::open(request.recording.store, store::Access::kRead);
    if (!origin.resume.empty())
      if (auto encoding = encoding_of(store, store::find_run(store, origin.resume), origin.state))
        return data::completed(std::move(*encoding), request.recipe.train);
    if (origin.fork == nullptr) return std::nullopt;
    const int64_t state = origin.fork->state;
    return encoding_of(store, store::find_run(store, origin.fork->run, store::Trash::kIncluded),
                       state < 0 ? std::nullopt : std::optional(state));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Checkpoint> host_part_of(store::Store& store, const store::RunRow& run, std::optional<int64_t> state) {
  for (const store::StateInfo& info : store::list_states(store, run.id)) {
    if (state && info.id != *state) continue;
    try {
      return checkpoint_of(store::load_section(store, info.id, kRunSection));
    } catch (const Error&) {  // the restoration of the run reports why
      continue;
    }
  }
  return std::nullopt;
}

std::optional<data::Encoding> encoding_of(store::Store& store, const store::RunRow& run, std::optional<int64_t> state) {
  std::optional<Checkpoint> found = host_part_of(store, run, state);
  return found ? std::optional(std::move(found->encoding)) : std::nullopt;
}

data::SharedData data_of(const RunRequest& request, backends::ProcessGroup* ranks) {
  if (request.data != nullptr) return request.data;
  std::optional<data::Encoding> known = known_encoding(request);
  if (ranks != nullptr) {
    const std::string text = ranks->gather_objects(known ? known->to_json() : "", {"the classes"}).front();
    known = text.empty() ? std::nullopt : std::optional(data::Encoding::from_json(text));
  }
  const auto load = [recipe = request.recipe, known] { return data::load(recipe, known ? &*known : nullptr); };
  if (ranks != nullptr) return read_once_per_host(*ranks, request.recipe, request.stop, load);
  const formats::ReadingStop stop([&] { return request.stop > 0; });
  return std::make_shared<const data::Data>(load());
}

}  // namespace runner::train
