#include "runner/lua/hook_work.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "backends/ir/needed.h"
#include "runner/lua/bind.h"

namespace runner::lua {
namespace {

std::string rounded(double count) {
  return fmt::format("{}", std::llround(count));
}

}  // namespace

// ---- GrowthWatch ---------------------------------------------------------------------------------------------------

std::optional<GrowthWatch::Growth> GrowthWatch::add(double count) {
  const int64_t number = counts_++;
  const auto is_power_of_two = [](int64_t n) { return (n & (n - 1)) == 0; };
  if (number < kFirst) return std::nullopt;
  smallest_ = is_power_of_two(number) ? count : std::min(smallest_, count);
  if (!is_power_of_two(number + 1)) return std::nullopt;  // not the last count of its window
  std::rotate(windows_.begin(), windows_.begin() + 1, windows_.end());
  windows_.back() = smallest_;
  const auto grows_slowly = [](double before, double after) { return before <= 0 || after < kFactor * before; };
  if (std::ranges::adjacent_find(windows_, grows_slowly) != windows_.end()) return std::nullopt;
  if (windows_.back() - windows_.front() < least_) return std::nullopt;
  return Growth{windows_.front(), windows_.back()};
}

// ---- counts --------------------------------------------------------------------------------------------------------

void HookWork::begin_recording(const backends::Program& program) {
  first_node_ = program.size();
  reads_of_recording_.emplace(kMinNodes);
}

void HookWork::end_recording(const backends::Program& program) {
  nodes_.count += program.size() - first_node_;
  if (!nodes_.growth) return;
  for (backends::ValueId id = first_node_; id < program.size(); ++id)
    if (const SourceMark& line = program.mark_of(id); line.known()) ++nodes_.lines[line.to_string()];
}

void HookWork::count_read(lua_State* state, const backends::Program& program, backends::ValueId value) {
  ++reads_.count;
  if (reads_.growth) ++reads_.lines[line_of_caller(state).to_string()];
  if (has_warned_ || found_) return;
  const std::vector<char> needed = backends::needed_by(program, std::span(&value, 1));
  const auto growth = reads_of_recording_->add(static_cast<double>(std::ranges::count(needed, 1)));
  if (growth)
    found_ = fmt::format(
        "the values that a step reads depend on more and more operations: {} for a read at first, {} later, last at "
        "{}; each read executes them again. Read the values together at the end, with nn.stack, or call "
        "acc:mark_step() in between, in `train` or an event",
        rounded(growth->from), rounded(growth->to), line_of_caller(state).to_string());
}

void HookWork::Kind::end_step(int64_t batches) {
  const double count_of_batch = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, batches));
  if (!growth) growth = watch.add(count_of_batch);
  count = 0;
}

std::string HookWork::Kind::at_busiest_line() const {
  const auto busiest = std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  return busiest != lines.end() ? fmt::format(", most of them at {}", busiest->first) : "";
}

std::optional<std::string> HookWork::end_step(int64_t batches) {
  if (has_warned_) return std::nullopt;
  const bool reads_grew = reads_.growth.has_value(), nodes_grew = nodes_.growth.has_value();
  reads_.end_step(batches);
  nodes_.end_step(batches);
  if (!found_ && reads_grew)
    found_ = fmt::format(
        "the hook reads more and more values: {} per batch at first, {} later{}; each read executes the recorded "
        "operations again. Keep a running sum as a number, or read the values once in many steps",
        rounded(reads_.growth->from), rounded(reads_.growth->to), reads_.at_busiest_line());
  if (!found_ && nodes_grew)
    found_ = fmt::format(
        "the hook records more and more operations: {} per batch at first, {} later{}; each step takes longer than "
        "the one before, and is compiled again. Keep a running sum as a number instead of adding up a growing list",
        rounded(nodes_.growth->from), rounded(nodes_.growth->to), nodes_.at_busiest_line());
  has_warned_ = found_.has_value();
  return found_;
}

}  // namespace runner::lua
