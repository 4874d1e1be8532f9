#include "runner/train/run/checkpoint/rank_parts.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

constexpr std::string_view kRank = "rank/";

std::string prefix_of(int rank) {
  return fmt::format("{}{}/", kRank, rank);
}

// ---- saving --------------------------------------------------------------------------------------------------------

// Adds the sections of an array of a rank. Arrays of ArrayRole::kUse have one number per parameter, gradients one per
// element.
void add_sections(const Trainer& trainer, const DeviceArray& array, int rank, std::vector<std::byte> bytes,
                  std::vector<RankPart>& parts) {
  const std::string prefix = prefix_of(rank);
  if (array.role == ArrayRole::kSum) {
    parts.push_back({prefix + std::string(kSumsSection), meta_of(array.type), std::move(bytes)});
    return;
  }
  const bool of_elements = array.role == ArrayRole::kGradients;
  const std::string_view kind = of_elements ? kGradientSections : kUseSections;
  const std::span<const std::byte> all(bytes);
  size_t number = 0;
  for (const nn::ParameterId id : trainer.model().parameters.in_buffer(array.buffer)) {
    const nn::Parameter& p = trainer.model().parameters[id];
    const backends::TensorType type{array.type.dtype, of_elements ? p.shape : backends::Shape{}};
    const size_t first = of_elements ? static_cast<size_t>(p.offset) : number++;
    const auto part = all.subspan(first * backends::size_of(type.dtype), type.bytes());
    parts.push_back({fmt::format("{}{}{}", prefix, kind, p.name), meta_of(type), {part.begin(), part.end()}});
  }
}

// Returns, by rank and flat buffer, whether there are gradients.
std::vector<int64_t> held_by_all(const Trainer& trainer, backends::ProcessGroup& ranks, const backends::Site& site) {
  std::vector<int64_t> mine;
  for (const GradientState state : trainer.arrays().gradients()) mine.push_back(state != GradientState::kNothing);
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(ranks.size()));
  ranks.all_gather({backends::DType::kI64, {std::ssize(mine)}}, std::as_bytes(std::span(mine)),
                   std::as_writable_bytes(std::span(all)), site);
  return all;
}

// ---- loading -------------------------------------------------------------------------------------------------------

std::vector<RankPart> take_parts(store::LoadedState& loaded) {
  std::vector<RankPart> parts;
  for (store::Section& section : loaded.sections)
    if (section.name.starts_with(kRank))
      parts.push_back({std::move(section.name), std::move(section.meta), std::move(section.bytes)});
  std::erase_if(loaded.sections, [](const store::Section& section) { return section.name.empty(); });
  return parts;
}

bool is_gradient(const store::Section& section) {
  return section.name.starts_with(kGradientSections);
}

// Returns the numbers of a section of this rank that a part of `bytes` replaces or is added to: all of a gradient; the
// sums of the optimizer step, which come first; the second number of use/NAME.
std::span<std::byte> counterpart(const store::LoadedState& loaded, store::Section& section, size_t bytes) {
  const size_t first = section.name.starts_with(kUseSections) ? sizeof(double) : 0;
  RUN_CHECK(section.bytes.size() >= first + bytes, ErrorKind::kStore, "state {}: the section {} is damaged",
            loaded.info.id, section.name);
  return std::span(section.bytes).subspan(first, bytes);
}

template <class T, class Combine>
void combine(std::span<std::byte> sum, std::span<const std::byte> more, const Combine& combine_two) {
  for (size_t at = 0; at + sizeof(T) <= sum.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, sum.data() + at, sizeof a);
    std::memcpy(&b, more.data() + at, sizeof b);
    a = combine_two(a, b);
    std::memcpy(sum.data() + at, &a, sizeof a);
  }
}

void add(const store::Section& to, std::span<std::byte> sum, std::span<const std::byte> more) {
  if (is_gradient(to)) return combine<float>(sum, more, std::plus<>());
  if (!to.name.starts_with(kUseSections)) return combine<double>(sum, more, std::plus<>());
  combine<double>(sum, more, [](double a, double b) { return std::max(a, b); });
}

// Merges the part of one rank into `loaded`. `replace`: instead of what `loaded` has accumulated.
void merge(store::LoadedState& loaded, int rank, const std::vector<RankPart>& parts, bool replace) {
  for (const RankPart& part : parts) {
    if (!is_part_of(part, rank)) continue;
    const std::string name = part.name.substr(prefix_of(rank).size());
    const auto found = std::ranges::find(loaded.sections, name, &store::Section::name);
    if (found == loaded.sections.end()) {
      loaded.sections.push_back({name, part.meta, part.bytes});
      continue;
    }
    const std::span<std::byte> sum = counterpart(loaded, *found, part.bytes.size());
    if (replace)
      std::ranges::copy(part.bytes, sum.begin());
    else
      add(*found, sum, part.bytes);
  }
}

// Adds the sums of all ranks up. A rank without a batch has none.
void fold(store::LoadedState& loaded, int64_t ranks, const std::vector<RankPart>& parts) {
  bool has_sum = std::ranges::any_of(loaded.sections, is_gradient);
  for (int rank = 1; rank < ranks; ++rank) {
    if (std::ranges::none_of(parts, [&](const RankPart& part) { return is_part_of(part, rank); })) continue;
    merge(loaded, rank, parts, /*replace=*/!std::exchange(has_sum, true));
  }
}

}  // namespace

bool is_part_of(const RankPart& part, int rank) {
  return part.name.starts_with(prefix_of(rank));
}

std::vector<RankPart> gather_rank_parts(Trainer& trainer, backends::ProcessGroup& ranks) {
  const backends::ModelPause pause = trainer.arrays().pause_model();
  const backends::Site site{"a state", trainer.counters.steps + 1};
  const std::vector<int64_t> held = held_by_all(trainer, ranks, site);
  const size_t buffers = trainer.arrays().gradients().size();
  std::vector<RankPart> parts;
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const std::span<const int64_t> of_rank = std::span(held).subspan(static_cast<size_t>(rank) * buffers, buffers);
    if (std::ranges::count(of_rank, 0) == std::ssize(of_rank)) continue;
    for (size_t i = 0; i < trainer.layout().arrays().size(); ++i) {
      const DeviceArray& array = trainer.layout().arrays()[i];
      if (!array.is_read_by_all()) continue;
      if (array.role != ArrayRole::kSum && of_rank[static_cast<size_t>(array.buffer)] == 0) continue;
      std::vector<std::byte> bytes(array.type.bytes());
      if (ranks.rank() == rank) bytes = trainer.arrays().read(static_cast<int32_t>(i));
      ranks.broadcast(array.type, bytes, rank, site);
      if (ranks.rank() == 0) add_sections(trainer, array, rank, std::move(bytes), parts);
    }
  }
  return parts;
}

void select_rank_part(store::LoadedState& loaded, Checkpoint& state, const Trainer& trainer) {
  const backends::ProcessGroup* const group = trainer.accumulating_ranks();
  const int rank = group != nullptr ? group->rank() : 0, ranks = group != nullptr ? group->size() : 1;
  std::vector<RankPart> parts = take_parts(loaded);
  if (ranks == state.ranks) {
    if (rank > 0) {
      std::erase_if(loaded.sections, is_gradient);
      merge(loaded, rank, parts, /*replace=*/true);
    }
    state.rank_parts = std::move(parts);
    return;
  }
  if (rank == 0) fold(loaded, state.ranks, parts);
  // In a declared loop, the sum counts once. All ranks of a hook's loop have the same sum.
  if (rank > 0 && trainer.arrays().shard()) std::erase_if(loaded.sections, is_gradient);
}

GradientState restored_gradients(const Checkpoint& state, const Trainer& trainer) {
  const backends::ProcessGroup* const group = trainer.accumulating_ranks();
  return state.ranks > 1 && group != nullptr && group->size() == state.ranks ? GradientState::kLocalSum
                                                                             : GradientState::kGlobalSum;
}

}  // namespace runner::train
