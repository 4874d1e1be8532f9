#include "runner/train/state_sharing.h"

#include <cstring>
#include <string>
#include <string_view>

namespace runner::train {
namespace {

constexpr backends::Site kSite{"the state"};

void append(std::string& text, std::string_view part) {
  const uint64_t size = part.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size).append(part);
}

std::string_view take(std::string_view& text) {
  uint64_t size = 0;
  std::memcpy(&size, text.data(), sizeof size);
  const std::string_view part = text.substr(sizeof size, size);
  text.remove_prefix(sizeof size + size);
  return part;
}

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

void send_state(backends::Collectives& ranks, Trainer& trainer, const RunState* state) {
  store::StateSnapshot snapshot;
  if (state != nullptr) capture(trainer, *state, snapshot);
  ranks.gather_objects(packed(snapshot), kSite);
}

std::optional<RunState> receive_state(backends::Collectives& ranks, Trainer& trainer) {
  const std::string text = ranks.gather_objects("", kSite).front();
  if (text.empty()) return std::nullopt;
  const store::LoadedState loaded = unpacked(text);
  restore(loaded, trainer);
  return run_state_of(loaded, trainer.optimizers().names);
}

}  // namespace runner::train
