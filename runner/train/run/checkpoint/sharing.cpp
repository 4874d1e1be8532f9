#include "runner/train/run/checkpoint/sharing.h"

#include <string>
#include <string_view>

#include "runner/train/run/checkpoint/rank_parts.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/step/packing.h"

namespace runner::train {
namespace {

const backends::Site kSite{"a state"};

std::string packed(const store::StateSnapshot& snapshot) {
  std::string text;
  text.reserve(snapshot.bytes() * 9 / 8);
  for (const store::SectionView& section : snapshot.sections()) {
    append(text, section.name);
    append(text, section.meta);
    append(text, {reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()});
  }
  return text;
}

store::LoadedState unpacked(std::string_view text) {
  store::LoadedState state;
  while (!text.empty()) {
    const std::string_view name = take(text), meta = take(text);
    const auto bytes = std::as_bytes(std::span(take(text)));
    state.sections.push_back({std::string(name), std::string(meta), {bytes.begin(), bytes.end()}});
  }
  return state;
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
    for (store::Section& section : unpacked(all.front()).sections) loaded.sections.push_back(std::move(section));
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
  store::LoadedState loaded = unpacked(all.front());
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
  std::string metrics;
  for (const auto& [name, range] : beginning.metrics) {
    append(metrics, name);
    for (const double number : {range.last, range.min, range.max}) append_number(metrics, number);
  }
  std::string text;
  for (const bool yes : {beginning.records_batches, beginning.resumed, beginning.state.has_value()})
    append(text, yes ? "yes" : "");
  for (const std::string& part : {beginning.run, beginning.name, metrics}) append(text, part);
  append_number(text, static_cast<double>(beginning.max_micro_batch));
  ranks.gather_objects(text, kSite);
  if (beginning.state) share_state(ranks, trainer, *beginning.state);
}

SharedStart receive_beginning(backends::ProcessGroup& ranks, Trainer& trainer) {
  const std::string all = ranks.gather_objects("", kSite).front();
  std::string_view text = all;
  SharedStart beginning;
  beginning.records_batches = !take(text).empty();
  beginning.resumed = !take(text).empty();
  const bool has_state = !take(text).empty();
  beginning.run = take(text);
  beginning.name = take(text);
  std::string_view metrics = take(text);
  while (!metrics.empty()) {
    MetricRange& range = beginning.metrics[std::string(take(metrics))];
    for (double* number : {&range.last, &range.min, &range.max}) *number = take_number(metrics);
  }
  beginning.max_micro_batch = static_cast<int64_t>(take_number(text));
  if (has_state) beginning.state = share_state(ranks, trainer, {});
  return beginning;
}

}  // namespace runner::train
