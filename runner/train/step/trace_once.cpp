#include "runner/train/step/trace_once.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "backends/graph/difference.h"
#include "backends/graph/print.h"
#include "schema/error.h"

namespace runner::train {
namespace {

using backends::Program;
using backends::ValueId;

bool same_results(const StepBuilder::Recorded& a, const StepBuilder::Recorded& b) {
  const auto same_metric = [](const StepBuilder::Metric& one, const StepBuilder::Metric& other) {
    return one.name == other.name && one.sum == other.sum && one.weight == other.weight;
  };
  return a.results() == b.results() && a.form == b.form && std::ranges::equal(a.metrics, b.metrics, same_metric);
}

[[noreturn]] void fail_at(std::string_view entry, const std::string& what, const SourceMark& where) {
  throw Error(
      ErrorKind::kRun,
      fmt::format("{} does not trace what it traced at first, which tpu.trace_once replays: {}; it may depend on "
                  "the batch, acc.model and acc.vars alone, else leave tpu.trace_once out",
                  entry, what),
      where);
}

}  // namespace

void check_same_trace(const StepBuilder::Recorded& kept, const StepBuilder::Recorded& again, std::string_view entry) {
  const Program &first = kept.program, &now = again.program;
  const ValueId id = backends::first_difference(first, now);
  if (id < std::min(first.size(), now.size()))
    fail_at(entry, fmt::format("{} is now {}", to_string(first, id), to_string(now, id)), now.mark_of(id));
  if (first.size() != now.size()) {
    const Program& longer = first.size() > now.size() ? first : now;
    fail_at(entry, fmt::format("{} is {}", to_string(longer, id), &longer == &now ? "new" : "missing"),
            longer.mark_of(id));
  }
  if (!same_results(kept, again)) fail_at(entry, "it returns something else", {});
  if (kept.host.scalars != again.host.scalars || kept.host.given != again.host.given)
    fail_at(entry, "a number that it hands to tensors has changed", {});
}

}  // namespace runner::train
