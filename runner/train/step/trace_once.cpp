#include "runner/train/step/trace_once.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/print.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

using backends::Program;
using backends::ValueId;

bool same_results(const StepBuilder::Recorded& a, const StepBuilder::Recorded& b) {
  const auto same_metric = [](const StepBuilder::Metric& one, const StepBuilder::Metric& other) {
    return one.name == other.name && one.sum == other.sum && one.weight == other.weight;
  };
  return a.results() == b.results() && a.loss_shape == b.loss_shape &&
         std::ranges::equal(a.metrics, b.metrics, same_metric);
}

// Returns number `index` of the `count` inputs of a kind that a hook has passed. They are the last inputs of that kind.
ValueId handed_over(const Program& program, backends::InputKind kind, size_t index, size_t count) {
  std::vector<ValueId> inputs;
  for (const backends::Input& input : program.inputs())
    if (input.kind == kind) inputs.push_back(input.value);
  return inputs[inputs.size() - count + index];
}

[[noreturn]] void fail_at(std::string_view entry, const std::string& what, const SourceMark& where) {
  throw Error(ErrorKind::kRun,
              fmt::format("{} traces differently than the first time, so tpu.trace_once cannot replay it: {}; make it "
                          "depend only on the batch, acc.model and acc.vars, or disable tpu.trace_once",
                          entry, what),
              where);
}

// Compares the numbers of two recordings with the same nodes.
void check_same_numbers(const StepBuilder::Recorded& kept, const StepBuilder::Recorded& again, std::string_view entry) {
  const Program& now = again.program;
  const std::vector<double>&was = kept.host.scalars, &is = again.host.scalars;
  for (size_t i = 0; i < was.size(); ++i)
    if (std::bit_cast<uint64_t>(was[i]) != std::bit_cast<uint64_t>(is[i]))
      fail_at(entry, fmt::format("a number passed to a tensor operation changed from {} to {}", was[i], is[i]),
              now.mark_of(handed_over(now, backends::InputKind::kScalar, i, is.size())));
  for (size_t i = 0; i < kept.host.given.size(); ++i)
    if (const size_t count = again.host.given.size(); kept.host.given[i] != again.host.given[i]) {
      const ValueId id = handed_over(now, backends::InputKind::kBatch, i, count);
      fail_at(entry, fmt::format("numbers of {} have changed", to_string(now, id)), now.mark_of(id));
    }
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
  if (!same_results(kept, again)) fail_at(entry, "it returns other values", {});
  check_same_numbers(kept, again, entry);
}

}  // namespace runner::train
