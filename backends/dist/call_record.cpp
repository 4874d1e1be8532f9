#include "backends/dist/call_record.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/dist/fixed_text.h"

namespace runner::backends {
namespace {

constexpr std::string_view kNames[] = {"nothing",    "barrier",   "all_reduce", "reduce",
                                       "all_gather", "broadcast", "exchange",   "share"};

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

std::string CallRecord::to_string() const {
  if (kind == CallKind::kNone) return "nothing yet";
  std::string text(kNames[static_cast<size_t>(kind)]);
  if (what[0] != '\0') text += fmt::format(" of {}", what);
  if (has_type(kind)) text += fmt::format(", {}", type.to_string());
  text += fmt::format(", at step {}", step);
  if (line[0] != '\0') text += fmt::format(", {}", line);
  return text;
}

std::string describe_disagreement(std::span<const CallRecord> calls) {
  std::vector<std::string> groups;
  std::vector<bool> told(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (told[i]) continue;
    const std::string text = calls[i].to_string();
    std::vector<size_t> ranks;
    for (size_t j = i; j < calls.size(); ++j) {
      if (calls[j].to_string() != text) continue;
      told[j] = true;
      ranks.push_back(j);
    }
    groups.push_back(fmt::format("{} {} {}", ranks_text(ranks), ranks.size() == 1 ? "calls" : "call", text));
  }
  return fmt::format("the replicas do not agree: {}", fmt::join(groups, "; "));
}

}  // namespace runner::backends
