#include "backends/dist/call_record.h"

#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/base/error.h"

namespace runner::backends {
namespace {

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::kNone: return "no collective";
    case CallKind::kBarrier: return "barrier";
    case CallKind::kAllReduce: return "all_reduce";
    case CallKind::kReduceScatter: return "reduce_scatter";
    case CallKind::kAllGather: return "all_gather";
    case CallKind::kBroadcast: return "broadcast";
    case CallKind::kGatherObjects: return "gather_objects";
    case CallKind::kSymmetricAlloc: return "symmetric_alloc";
  }
  RUN_ASSERT(false);
}

// Whether the call has values, and so a type that messages show.
bool has_type(CallKind kind) {
  return kind != CallKind::kNone && kind != CallKind::kBarrier && kind != CallKind::kGatherObjects;
}

// Examples: "rank 1", "ranks 0, 2 and 3".
std::string ranks_text(const std::vector<size_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::span<const size_t> all(ranks);
  return fmt::format("ranks {} and {}", fmt::join(all.first(all.size() - 1), ", "), ranks.back());
}

}  // namespace

CallRecord CallRecord::of(CallKind kind, const TensorType& type, const Site& site) {
  CallRecord record{.kind = kind, .type = type, .step = site.step};
  set_fixed_text(record.what, site.what);
  if (site.line.known()) set_end_of_text(record.line, site.line.to_string());
  return record;
}

bool CallRecord::matches(const CallRecord& other) const {
  return kind == other.kind && reduction == other.reduction && root == other.root && type == other.type &&
         step == other.step && std::strcmp(what, other.what) == 0;
}

uint64_t CallRecord::digest() const {
  uint64_t digest = std::hash<std::string_view>{}(what);
  const auto mix = [&](int64_t number) {
    digest = (digest ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15;
    digest ^= digest >> 32;
  };
  for (const auto number : {static_cast<int64_t>(kind), static_cast<int64_t>(reduction), int64_t{root}, step,
                            static_cast<int64_t>(type.dtype), int64_t{type.shape.rank()}})
    mix(number);
  for (const int64_t size : type.shape.dims()) mix(size);
  return digest;
}

std::string CallRecord::to_string() const {
  std::string text(name_of(kind));
  if (kind == CallKind::kNone) return text;
  if (what[0] != '\0') text += fmt::format(" of {}", what);
  if (has_type(kind)) text += fmt::format(", {}", type.to_string());
  text += fmt::format(", at step {}", step);
  if (line[0] != '\0') text += fmt::format(", {}", line);
  return text;
}

std::string CallRecord::as_last_call() const {
  return kind == CallKind::kNone ? "has called no collective yet" : "last called " + to_string();
}

std::string describe_disagreement(std::span<const CallRecord> calls, int first_rank) {
  std::vector<std::string> texts;  // in the order in which they first occur
  std::map<std::string, std::vector<size_t>> ranks;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    std::string text = calls[rank].to_string();
    ranks[text].push_back(static_cast<size_t>(first_rank) + rank);
    if (ranks[text].size() == 1) texts.push_back(std::move(text));
  }
  std::vector<std::string> groups;
  for (const std::string& text : texts)
    groups.push_back(
        fmt::format("{} {} {}", ranks_text(ranks[text]), ranks[text].size() == 1 ? "calls" : "call", text));
  return fmt::format("ranks called different collectives: {}", fmt::join(groups, "; "));
}

}  // namespace runner::backends
