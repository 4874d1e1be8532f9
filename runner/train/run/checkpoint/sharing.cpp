#include "runner/train/run/checkpoint/sharing.h"

#include <string>
#include <utility>
#include <vector>

#include "runner/train/run/checkpoint/rank_parts.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/packing.h"

namespace runner::train {
namespace {

const backends::Site kSite{"a state"};

std::string packed(const store::StateSnapshot& snapshot) {
  Packer packer;
  packer.reserve(snapshot.bytes() * 9 / 8);
  packer.write(snapshot.sections());
  return std::move(packer).bytes();
}

// Sends each rank its part. Rank 0 has all parts in `state`; the others add theirs to `loaded`.
void share_parts(backends::ProcessGroup& ranks, const Checkpoint& state, store::LoadedState& loaded) {
  if (state.ranks != ranks.size()) return;
  for (int rank = 1; rank < ranks.size(); ++rank) {
    store::StateSnapshot part;
    for (const RankPart& section : state.rank_parts)
      if (is_part_of(section, rank)) part.add(section.name, section.meta, section.bytes);
    const std::vector<std::string> all = ranks.gather_objects(packed(part), kSite);
    if (ranks.rank() != rank) continue;
    for (store::Section& section : unpack<std::vector<store::Section>>(all.front()))
      loaded.sections.push_back(std::move(section));
  }
}

}  // namespace

Checkpoint share_state(backends::ProcessGroup& ranks, Trainer& trainer, const Checkpoint& mine) {
  store::StateSnapshot snapshot;
  Checkpoint common = mine;
  common.rank_parts.clear();
  const bool have_weights = trainer.arrays().are_shared() && !ranks.spans_hosts();
  if (ranks.rank() == 0)
    have_weights ? capture_for_rank(trainer, common, snapshot) : capture(trainer, common, snapshot);
  const std::vector<std::string> all = ranks.gather_objects(packed(snapshot), kSite);
  store::LoadedState loaded{.info = {}, .sections = unpack<std::vector<store::Section>>(all.front())};
  Checkpoint state = ranks.rank() == 0 ? mine : checkpoint_of(loaded, trainer.optimizers().names);
  share_parts(ranks, state, loaded);
  if (ranks.rank() != 0) {
    select_rank_part(loaded, state, trainer);
    restore(loaded, trainer);
  }
  if (!have_weights) ranks.barrier(kSite);  // on other hosts, the first rank has written the weights for all
  return state;
}

void send_beginning(backends::ProcessGroup& ranks, Trainer& trainer, const SharedStart& beginning) {
  Packer packer;
  packer.write(beginning);
  packer.write(beginning.state.has_value());
  ranks.gather_objects(packer.bytes(), kSite);
  if (beginning.state) share_state(ranks, trainer, *beginning.state);
}

SharedStart receive_beginning(backends::ProcessGroup& ranks, Trainer& trainer) {
  const std::string text = ranks.gather_objects("", kSite).front();
  Unpacker unpacker(text);
  auto beginning = unpacker.read<SharedStart>();
  if (unpacker.read<bool>()) beginning.state = share_state(ranks, trainer, {});
  return beginning;
}

}  // namespace runner::train
