#include "runner/train/state_sharing.h"

#include <string>
#include <string_view>

#include "runner/train/packing.h"

namespace runner::train {
namespace {

const backends::Site kSite{"the beginning"};

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

}  // namespace

void send_beginning(backends::Collectives& ranks, Trainer& trainer, const Beginning& beginning) {
  std::string metrics;
  for (const auto& [name, range] : beginning.metrics) {
    append(metrics, name);
    for (const double number : {range.last, range.min, range.max}) append_number(metrics, number);
  }
  store::StateSnapshot snapshot;
  if (beginning.state) capture(trainer, *beginning.state, snapshot);
  std::string text;
  append(text, beginning.resumed ? "resumed" : "");
  for (const std::string& part : {beginning.run, beginning.name, metrics, packed(snapshot)}) append(text, part);
  ranks.gather_objects(text, kSite);
}

Beginning receive_beginning(backends::Collectives& ranks, Trainer& trainer) {
  const std::string all = ranks.gather_objects("", kSite).front();
  std::string_view text = all;
  Beginning beginning;
  beginning.resumed = !take(text).empty();
  beginning.run = take(text);
  beginning.name = take(text);
  for (std::string_view metrics = take(text); !metrics.empty();) {
    MetricRange& range = beginning.metrics[std::string(take(metrics))];
    for (double* number : {&range.last, &range.min, &range.max}) *number = take_number(metrics);
  }
  const std::string_view state = take(text);
  if (state.empty()) return beginning;
  const store::LoadedState loaded = unpacked(state);
  restore(loaded, trainer);
  beginning.state = run_state_of(loaded, trainer.optimizers().names);
  return beginning;
}

}  // namespace runner::train
