#include "tests/backends/support/memory_plan_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backends/ir/print.h"
#include "backends/ir/views.h"
#include "backends/tensor/alignment.h"

namespace runner::backends::testing {
namespace {

class MemoryPlanCheck {
 public:
  MemoryPlanCheck(const Program& program, const std::vector<Group>& groups, const MemoryPlan& plan,
                  const std::vector<size_t>& scratch_bytes)
      : program_(program), groups_(groups), plan_(plan), scratch_bytes_(scratch_bytes) {}

  // Returns an empty string or the first fault.
  std::string run() {
    check_blocks();
    memory_.resize(program_.inputs().size() + 1);
    memory_[0].assign(plan_.arena_bytes, {});
    for (size_t i = 0; i < program_.inputs().size(); ++i) {
      const ValueId id = program_.inputs()[i].value;
      for (size_t byte = 0; byte < program_.type(id).bytes(); ++byte) memory_[i + 1].push_back({id, byte});
    }
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!plan_.elided[g]) run_group(g);
    for (const StateCopy& copy : plan_.copies) run_copy(copy);
    for (const Output& output : program_.outputs()) check_output(output);
    return fault_;
  }

 private:
  struct Tag {
    ValueId value = kNoValue;
    size_t byte = 0;
    bool operator==(const Tag&) const = default;
  };
  struct Range {
    SlotOffset place;
    size_t bytes;
    bool overlaps(const Range& other) const {
      return place.slot == other.place.slot && bytes > 0 && other.bytes > 0 &&
             place.offset < other.place.offset + other.bytes && other.place.offset < place.offset + bytes;
    }
  };

  void fail(const std::string& text) {
    if (fault_.empty()) fault_ = text;
  }

  void check_blocks() {
    const auto& blocks = plan_.blocks;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].offset % kAlignment != 0) fail(fmt::format("block {} is not aligned", i));
      if (blocks[i].offset + blocks[i].bytes > plan_.arena_bytes) fail(fmt::format("block {} is outside", i));
      for (size_t j = 0; j < i; ++j) {
        const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const Range a{{0, blocks[i].offset}, blocks[i].bytes}, b{{0, blocks[j].offset}, blocks[j].bytes};
        if (together && a.overlaps(b)) fail(fmt::format("blocks {} and {} overlap", i, j));
      }
    }
  }

  // Tags of the bytes of a value. Views and concats that are written part by part have no bytes of their own.
  const std::vector<Tag>& contents(ValueId id) {
    auto [entry, fresh] = contents_.try_emplace(id);
    std::vector<Tag>& tags = entry->second;
    if (!fresh) return tags;
    const size_t bytes = program_.type(id).bytes();
    if (is_view(program_, id)) {
      const std::vector<Tag> from = contents(program_.operands(id)[0]);
      const size_t start = first_byte(id);
      tags.assign(from.begin() + static_cast<std::ptrdiff_t>(bytes == 0 ? 0 : start),
                  from.begin() + static_cast<std::ptrdiff_t>(bytes == 0 ? 0 : start + bytes));
    } else if (is_elided(id)) {
      for (const ValueId part : program_.operands(id)) {
        const std::vector<Tag> from = contents(part);
        tags.insert(tags.end(), from.begin(), from.end());
      }
    } else {
      for (size_t byte = 0; byte < bytes; ++byte) tags.push_back({id, byte});
    }
    return tags;
  }

  size_t first_byte(ValueId id) const {
    if (program_.node(id).op == Op::kReshape) return 0;
    int64_t at = 0;
    const Shape& from = program_.type(program_.operands(id)[0]).shape;
    for (int axis = 0; axis < from.rank(); ++axis)
      at = at * from[axis] + program_.attrs(id)[static_cast<size_t>(axis) * 3];
    return static_cast<size_t>(at) * size_of(program_.type(id).dtype);
  }

  bool is_elided(ValueId id) const {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].nodes[0] == id) return plan_.elided[g] != 0;
    return false;
  }

  Range range_of(ValueId id) {
    const SlotOffset& place = plan_.places[static_cast<size_t>(id)];
    if (place.slot < 0) fail(fmt::format("{} has no place", to_string(program_, id)));
    return {place.slot < 0 ? SlotOffset{} : place, program_.type(id).bytes()};
  }

  std::string where(size_t g) const {
    return fmt::format("step {}: {}", g, to_string(program_, groups_[g].nodes.back()));
  }

  bool holds(const Range& range, const std::vector<Tag>& tags) {
    const std::vector<Tag>& memory = memory_[static_cast<size_t>(range.place.slot)];
    if (range.place.offset + range.bytes > memory.size()) return range.bytes == 0;
    return std::equal(tags.begin(), tags.end(), memory.begin() + static_cast<std::ptrdiff_t>(range.place.offset));
  }

  // Operands of a group in memory, and whether it reads each element only where it writes that element.
  std::vector<std::pair<ValueId, bool>> reads_of(const Group& group) {
    std::vector<std::pair<ValueId, bool>> reads;
    for (const ValueId id : group.nodes) {
      const bool copy = group.kind == GroupKind::kEltwise && !is_elementwise(program_.node(id).op);
      for (const ValueId operand : program_.operands(id)) {
        if (std::find(group.nodes.begin(), group.nodes.end(), operand) != group.nodes.end()) continue;
        const Op op = program_.node(operand).op;
        if (group.kind == GroupKind::kEltwise && op == Op::kConstant && !copy) continue;
        const bool through = group.kind == GroupKind::kEltwise && op == Op::kExpand && !copy;
        const ValueId base = through ? program_.operands(operand)[0] : operand;
        reads.emplace_back(base, group.kind == GroupKind::kEltwise &&
                                     program_.type(base).shape.elements() == program_.type(id).shape.elements());
      }
    }
    return reads;
  }

  void run_group(size_t g) {
    const Group& group = groups_[g];
    std::vector<Range> results;
    for (const ValueId id : group.results) results.push_back(range_of(id));
    const Range scratch{plan_.scratch[g], scratch_bytes_[g]};
    for (const auto& [operand, element_by_element] : reads_of(group)) {
      const Range range = range_of(operand);
      if (!holds(range, contents(operand))) fail(fmt::format("{} does not find %{} in memory", where(g), operand));
      if (range.overlaps(scratch)) fail(fmt::format("{} has its scratch over %{}", where(g), operand));
      for (const Range& result : results)
        if (result.overlaps(range) &&
            !(element_by_element && result.place == range.place && result.bytes == range.bytes))
          fail(fmt::format("{} writes over %{} while it reads it", where(g), operand));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].overlaps(scratch)) fail(fmt::format("{} has its scratch over a result", where(g)));
      for (size_t j = 0; j < i; ++j)
        if (results[i].overlaps(results[j])) fail(fmt::format("{} writes two results to one place", where(g)));
      write(results[i], contents(group.results[i]));
    }
    if (scratch_bytes_[g] > 0) write(scratch, std::vector<Tag>(scratch_bytes_[g]));
  }

  void write(const Range& range, const std::vector<Tag>& tags) {
    std::vector<Tag>& memory = memory_[static_cast<size_t>(range.place.slot)];
    if (range.place.offset + range.bytes > memory.size()) {
      if (range.bytes > 0) fail(fmt::format("a write to slot {} is outside", range.place.slot));
      return;
    }
    std::copy(tags.begin(), tags.end(), memory.begin() + static_cast<std::ptrdiff_t>(range.place.offset));
  }

  void run_copy(const StateCopy& copy) {
    if (copy.bytes == 0) return;
    const auto& from = memory_[static_cast<size_t>(copy.from.slot)];
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(copy.from.offset);
    write({copy.to, copy.bytes}, std::vector<Tag>(begin, begin + static_cast<std::ptrdiff_t>(copy.bytes)));
  }

  void check_output(const Output& output) {
    const size_t bytes = program_.type(output.value).bytes();
    const Range range = output.state < 0 ? range_of(output.value) : Range{{output.state + 1, 0}, bytes};
    if (!holds(range, contents(output.value))) fail(fmt::format("output %{} is not where it should be", output.value));
    if (output.state < 0 && bytes > 0 && range.place.slot != 0)
      fail(fmt::format("returned output %{} is in a state", output.value));
  }

  const Program& program_;
  const std::vector<Group>& groups_;
  const MemoryPlan& plan_;
  const std::vector<size_t>& scratch_bytes_;
  std::vector<std::vector<Tag>> memory_;  // by slot
  std::map<ValueId, std::vector<Tag>> contents_;
  std::string fault_;
};

}  // namespace

std::string memory_plan_fault(const Program& program, const std::vector<Group>& groups, const MemoryPlan& plan,
                              const std::vector<size_t>& scratch_bytes) {
  return MemoryPlanCheck(program, groups, plan, scratch_bytes).run();
}

}  // namespace runner::backends::testing
