// Memory plan: where every value of a grouped Program is stored.
//
// Invariants: 1. values with overlapping lifetimes never share arena bytes, unless one is a view of the other, or a
// result overwrites an operand that is not read later (InPlaceRule in op_def.h); 2. a state
// is overwritten in place only if its old contents are not read afterwards, else its new value is copied at the end; 3.
// arena offsets are multiples of kAlignment for values that own their buffer.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backends/exec/fusion.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Slot 0 is the arena; slot 1 + i is the buffer of the Program's input i.
struct SlotOffset {
  int32_t slot = 0;
  size_t offset = 0;  // bytes
  bool operator==(const SlotOffset&) const = default;
};

// A range of the arena, used during the steps `first` to `last`.
struct ArenaBlock {
  size_t bytes = 0;
  int first = 0, last = 0;  // step numbers, inclusive
  size_t offset = 0;
};

// A copy at the end of the plan from `from` to a state's buffer.
struct StateCopy {
  SlotOffset from;
  SlotOffset to;
  size_t bytes;
};

struct MemoryPlan {
  std::vector<SlotOffset> places;   // by value; slot −1 for values that are not in memory
  std::vector<SlotOffset> scratch;  // by group
  std::vector<char> elided;         // by group: a concat whose parts are written in place
  std::vector<StateCopy> copies;
  std::vector<ArenaBlock> blocks;
  size_t arena_bytes = 0;
};

// Sets the offsets of `blocks`. Returns the arena size in bytes.
using PlaceBlocks = std::function<size_t(std::vector<ArenaBlock>& blocks)>;

// Sets the offsets so that blocks with overlapping lifetimes do not overlap: largest first, each at the lowest free
// offset. Returns the arena size in bytes.
size_t assign_offsets(std::vector<ArenaBlock>& blocks);

// Sets given offsets. Throws Error(kData) if they violate invariants 1 or 3. Returns the arena size in bytes.
size_t set_offsets(std::vector<ArenaBlock>& blocks, std::span<const size_t> offsets);

// Every output must be a computed value (see legalise()), and each state the target of at most one output.
// `scratch_bytes`: scratch memory of each group's kernel. `reuse`: if false, every value gets its own memory.
MemoryPlan plan_memory(const Program& program, const std::vector<Group>& groups,
                       const std::vector<size_t>& scratch_bytes, bool reuse, const PlaceBlocks& place_blocks);

}  // namespace runner::backends
