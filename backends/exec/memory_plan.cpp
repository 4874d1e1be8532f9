#include "backends/exec/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "backends/ir/op_def.h"
#include "backends/ir/views.h"
#include "backends/tensor/alignment.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

constexpr int32_t kNowhere = -1;

class MemoryPlanner {
 public:
  MemoryPlanner(const Program& program, const std::vector<Group>& groups, bool reuse)
      : program_(program),
        groups_(groups),
        reuse_(reuse),
        copied_(static_cast<int>(groups.size())),
        returned_(copied_ + 1),
        step_of_(static_cast<size_t>(program.size()), -1),
        homes_(static_cast<size_t>(program.size())) {
    plan_.places.assign(static_cast<size_t>(program.size()), {kNowhere, 0});
    plan_.elided.assign(groups.size(), 0);
    for (size_t g = 0; g < groups.size(); ++g)
      for (const ValueId id : groups[g].nodes) step_of(id) = static_cast<int>(g);
  }

  MemoryPlan run(const std::vector<size_t>& scratch_bytes, const PlaceBlocks& place_blocks) {
    make_homes();
    place_concats();
    find_uses();
    place_states();
    place_in_place();
    collect_blocks();
    for (size_t g = 0; g < groups_.size(); ++g) add_scratch(scratch_bytes[g], static_cast<int>(g));
    plan_.arena_bytes = place_blocks(plan_.blocks);
    write_places();
    return std::move(plan_);
  }

 private:
  // Location of a value: inside the buffer of another value, or in a buffer of its own.
  struct Home {
    ValueId in = kNoValue;  // value whose buffer contains this one; kNoValue: own buffer
    size_t offset = 0;
    int32_t slot = 0;  // of an own buffer; 0: the arena
    int first = -1, last = -1;
    int block = -1;
  };

  struct Root {
    ValueId value;
    size_t offset;
  };

  int& step_of(ValueId id) { return step_of_[static_cast<size_t>(id)]; }
  Home& home(ValueId id) { return homes_[static_cast<size_t>(id)]; }

  Root root_of(ValueId id) {
    size_t offset = 0;
    while (home(id).in != kNoValue) {
      offset += home(id).offset;
      id = home(id).in;
    }
    return {id, offset};
  }

  void make_homes() {
    for (size_t i = 0; i < program_.inputs().size(); ++i)
      home(program_.inputs()[i].value).slot = static_cast<int32_t>(i) + 1;
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (!is_view(program_, id)) continue;
      home(id).in = program_.operands(id)[0];
      home(id).offset = static_cast<size_t>(view_start(program_, id)) * size_of(program_.type(id).dtype);
    }
  }

  ValueId without_reshapes(ValueId id) const {
    while (program_.node(id).op == Op::kReshape) id = program_.operands(id)[0];
    return id;
  }

  // Returns the computed value under reshapes if it may be written into another buffer, else kNoValue.
  ValueId movable(ValueId id) {
    id = without_reshapes(id);
    const bool computed = step_of(id) >= 0 && home(id).in == kNoValue && home(id).slot == 0;
    return computed ? id : kNoValue;
  }

  // Outer concats are placed first, so that an inner concat can be placed into them as a whole.
  void place_concats() {
    for (size_t g = groups_.size(); g-- > 0;)
      if (program_.node(groups_[g].nodes[0]).op == Op::kConcat) place_concat(g);
  }

  void place_concat(size_t g) {
    if (!reuse_) return;
    const ValueId concat = groups_[g].nodes[0];
    const Shape& shape = program_.type(concat).shape;
    for (int axis = 0; axis < program_.attrs(concat)[0]; ++axis)
      if (shape[axis] != 1) return;
    std::vector<ValueId> parts;
    for (const ValueId operand : program_.operands(concat)) {
      const ValueId part = movable(operand);
      if (part == kNoValue || std::find(parts.begin(), parts.end(), part) != parts.end()) return;
      parts.push_back(part);
    }
    size_t offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      home(parts[i]).in = concat;
      home(parts[i]).offset = offset;
      offset += program_.type(program_.operands(concat)[i]).bytes();
    }
    plan_.elided[g] = 1;
  }

  // Finds the first write and the last read of every buffer.
  void find_uses() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (plan_.elided[g]) continue;
      const int step = static_cast<int>(g);
      for (const ValueId id : groups_[g].results) written(id, step);
      for (const ValueId operand : groups_[g].operands) read(operand, step);
    }
    for (const Output& output : program_.outputs())
      if (output.state < 0) read(output.value, returned_);
    // A value that only barriers wait for must not share memory with other results of its step.
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (program_.node(id).op != Op::kBarrier) continue;
      const ValueId after = root_of(program_.operands(id)[1]).value;
      if (step_of(after) >= 0) read(after, step_of(after) + 1);
    }
  }

  void written(ValueId id, int step) {
    Home& root = home(root_of(id).value);
    root.first = root.first < 0 ? step : std::min(root.first, step);
    root.last = std::max(root.last, step);
  }

  void read(ValueId id, int step) {
    Home& root = home(root_of(id).value);
    root.last = std::max(root.last, step);
  }

  void place_states() {
    for (const Output& output : program_.outputs()) {
      if (output.state < 0) continue;
      const ValueId input = program_.inputs()[static_cast<size_t>(output.state)].value;
      const ValueId value = reuse_ ? movable(output.value) : kNoValue;
      if (value != kNoValue && may_overwrite(value, input)) {
        home(value).slot = home(input).slot;
      } else {
        read(output.value, copied_);
        late_.push_back(&output);
      }
    }
  }

  // Whether `value` may be computed directly into the buffer of state `input`. Returned outputs stay in the arena,
  // which only the device writes.
  bool may_overwrite(ValueId value, ValueId input) {
    if (home(value).last == returned_) return false;
    const int write = home(value).first;
    const int read = home(input).last;
    if (read < write) return true;
    if (plan_.elided[static_cast<size_t>(step_of(value))]) return parts_may_overwrite(value, input);
    return read == write && element_by_element(value, input, 0);
  }

  // Bytes of a buffer that a step reads.
  struct Read {
    int step;
    size_t begin, end;
  };

  std::vector<Read> reads_of(ValueId buffer) {
    std::vector<Read> reads;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const ValueId operand : groups_[g].operands)
        if (const Root root = root_of(operand); root.value == buffer)
          reads.push_back({static_cast<int>(g), root.offset, root.offset + program_.type(operand).bytes()});
    return reads;
  }

  // The same for a concat that is written part by part: bytes overwritten by a part must not be read later.
  bool parts_may_overwrite(ValueId concat, ValueId input) {
    const std::vector<Read> reads = reads_of(input);
    return std::ranges::all_of(program_.operands(concat), [&](ValueId operand) {
      const ValueId part = without_reshapes(operand);
      return !plan_.elided[static_cast<size_t>(step_of(part))] && part_may_overwrite(part, input, reads);
    });
  }

  bool part_may_overwrite(ValueId part, ValueId input, const std::vector<Read>& reads) {
    const size_t begin = home(part).offset, end = begin + program_.type(part).bytes();
    const int step = step_of(part);
    return std::ranges::all_of(reads, [&](const Read& read) {
      const bool touches = read.begin < end && begin < read.end;
      return !touches || read.step < step || (read.step == step && element_by_element(part, input, begin));
    });
  }

  InPlaceRule in_place_rule(const Group& group) const { return def_of(program_.node(group.nodes[0]).op).in_place; }

  // Whether the group that computes `value` reads `buffer` only at the element that it writes. `offset`: of these
  // elements.
  bool element_by_element(ValueId value, ValueId buffer, size_t offset) {
    const Group& group = groups_[static_cast<size_t>(step_of(value))];
    const TensorType& type = program_.type(value);
    const InPlaceRule rule = in_place_rule(group);
    if (rule == InPlaceRule::kNever) return false;
    if (rule != InPlaceRule::kSameElement) {
      const std::span<const ValueId> operands = program_.operands(value);
      for (size_t i = 0; i < operands.size(); ++i)
        if (!allows(rule, i) && root_of(operands[i]).value == buffer) return false;
    }
    for (const ValueId operand : group.operands) {
      const Root root = root_of(operand);
      const TensorType& read = program_.type(operand);
      if (root.value == buffer && (root.offset != offset || read.shape.elements() != type.shape.elements() ||
                                   size_of(read.dtype) != size_of(type.dtype)))
        return false;
    }
    return true;
  }

  // Lets results reuse the buffer of an operand that dies there.
  void place_in_place() {
    if (!reuse_) return;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (in_place_rule(groups_[g]) != InPlaceRule::kNever)
        for (const ValueId result : groups_[g].results) take_over(result, static_cast<int>(g));
  }

  void take_over(ValueId result, int step) {
    if (home(result).in != kNoValue || home(result).slot != 0) return;
    for (const ValueId operand : groups_[static_cast<size_t>(step)].operands) {
      const ValueId buffer = root_of(operand).value;
      Home& old = home(buffer);
      const bool dies = old.slot == 0 && old.first >= 0 && old.first < step && old.last == step;
      if (!dies || program_.type(buffer).bytes() != program_.type(result).bytes() ||
          !element_by_element(result, buffer, 0))
        continue;
      old.last = std::max(old.last, home(result).last);
      home(result).in = buffer;
      return;
    }
  }

  void collect_blocks() {
    for (ValueId id = 0; id < program_.size(); ++id) {
      Home& own = home(id);
      if (own.in != kNoValue || own.slot != 0 || own.first < 0) continue;
      own.block = static_cast<int>(plan_.blocks.size());
      plan_.blocks.push_back({program_.type(id).bytes(), own.first, own.last, 0});
    }
  }

  void add_scratch(size_t bytes, int step) {
    if (plan_.elided[static_cast<size_t>(step)]) bytes = 0;
    scratch_blocks_.push_back(bytes == 0 ? -1 : static_cast<int>(plan_.blocks.size()));
    if (bytes > 0) plan_.blocks.push_back({bytes, step, step, 0});
  }

  void write_places() {
    for (ValueId id = 0; id < program_.size(); ++id) {
      const Root root = root_of(id);
      const Home& own = home(root.value);
      if (own.slot > 0) {
        plan_.places[static_cast<size_t>(id)] = {own.slot, root.offset};
      } else if (own.block >= 0) {
        plan_.places[static_cast<size_t>(id)] = {0, plan_.blocks[static_cast<size_t>(own.block)].offset + root.offset};
      }
    }
    for (const int block : scratch_blocks_)
      plan_.scratch.push_back({0, block < 0 ? 0 : plan_.blocks[static_cast<size_t>(block)].offset});
    for (const Output* output : late_) {
      const int32_t slot = output->state + 1;
      const size_t bytes = program_.type(output->value).bytes();
      if (bytes > 0) plan_.copies.push_back({plan_.places[static_cast<size_t>(output->value)], {slot, 0}, bytes});
    }
  }

  const Program& program_;
  const std::vector<Group>& groups_;
  const bool reuse_;
  const int copied_, returned_;  // pseudo-steps after the last: state copies, and reading of outputs
  std::vector<int> step_of_;
  std::vector<Home> homes_;
  std::vector<const Output*> late_;
  std::vector<int> scratch_blocks_;
  MemoryPlan plan_;
};

// Checks that blocks live at the same time do not overlap: sweeps over the steps with the live blocks sorted by offset.
void check_disjoint(const std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> begins(blocks.size()), ends;
  std::iota(begins.begin(), begins.end(), size_t{0});
  std::erase_if(begins, [&](size_t i) { return blocks[i].bytes == 0; });
  ends = begins;
  std::ranges::stable_sort(begins, {}, [&](size_t i) { return blocks[i].first; });
  std::ranges::stable_sort(ends, {}, [&](size_t i) { return blocks[i].last; });
  std::map<size_t, size_t> live;  // offset and end of a block
  size_t ended = 0;
  for (const size_t i : begins) {
    const ArenaBlock& block = blocks[i];
    for (; blocks[ends[ended]].last < block.first; ++ended) live.erase(blocks[ends[ended]].offset);
    const auto next = live.lower_bound(block.offset);
    const bool is_disjoint = (next == live.end() || next->first >= block.offset + block.bytes) &&
                             (next == live.begin() || std::prev(next)->second <= block.offset);
    RUN_CHECK(is_disjoint, ErrorKind::kData, "block {} of the arena overlaps another", i);
    live.emplace(block.offset, block.offset + block.bytes);
  }
}

}  // namespace

size_t assign_offsets(std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  size_t total = 0;
  std::vector<size_t> placed;  // sorted by offset
  for (const size_t i : order) {
    ArenaBlock& block = blocks[i];
    for (const size_t j : placed) {
      const ArenaBlock& other = blocks[j];
      if (other.first > block.last || block.first > other.last) continue;
      if (other.offset >= block.offset + aligned(block.bytes)) break;
      block.offset = std::max(block.offset, other.offset + aligned(other.bytes));
    }
    total = std::max(total, block.offset + aligned(block.bytes));
    const auto before = [&](size_t a, size_t b) { return blocks[a].offset < blocks[b].offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, before), i);
  }
  return total;
}

size_t set_offsets(std::vector<ArenaBlock>& blocks, std::span<const size_t> offsets) {
  RUN_CHECK(offsets.size() == blocks.size(), ErrorKind::kData, "{} offsets for {} blocks of the arena", offsets.size(),
            blocks.size());
  size_t all = 0;  // upper bound of the arena size
  for (const ArenaBlock& block : blocks) all += aligned(block.bytes);
  size_t total = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t bytes = aligned(blocks[i].bytes);
    RUN_CHECK(offsets[i] % kAlignment == 0 && offsets[i] <= all - bytes, ErrorKind::kData,
              "block {} of the arena does not fit at {}", i, offsets[i]);
    blocks[i].offset = offsets[i];
    total = std::max(total, offsets[i] + bytes);
  }
  check_disjoint(blocks);
  return total;
}

MemoryPlan plan_memory(const Program& program, const std::vector<Group>& groups,
                       const std::vector<size_t>& scratch_bytes, bool reuse, const PlaceBlocks& place_blocks) {
  return MemoryPlanner(program, groups, reuse).run(scratch_bytes, place_blocks);
}

}  // namespace runner::backends
