// The memory plan: where every value of a grouped Program lives.
//
// Invariants: 1. two values whose lifetimes overlap never share bytes of the arena, unless one is a view of the other
// or an element-wise group, a collective or a product with an addend writes over an operand that nothing reads
// later; 2. a state is overwritten in place only when nothing reads its old contents afterwards, else its new value is
// copied in at the end; 3. arena offsets are multiples of kAlignment for values that own their buffer.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backends/ir/program.h"
#include "backends/plan/fusion.h"

namespace runner::backends {

// Slot 0 is the arena, slot 1 + i the buffer bound to the Program's input i.
struct Place {
  int32_t slot = 0;
  size_t offset = 0;  // bytes
  bool operator==(const Place&) const = default;
};

// A buffer of the arena and the steps between which it holds something.
struct ArenaBlock {
  size_t bytes = 0;
  int first = 0, last = 0;  // step numbers, inclusive
  size_t offset = 0;
};

// A copy that ends the plan: `from` into the state's buffer.
struct StateCopy {
  Place from;
  Place to;
  size_t bytes;
};

struct Storage {
  std::vector<Place> places;   // by value; {-1} for values that are in no memory
  std::vector<Place> scratch;  // by group
  std::vector<char> elided;    // by group: a concat whose parts are written in place
  std::vector<StateCopy> copies;
  std::vector<ArenaBlock> blocks;
  size_t arena_bytes = 0;
};

// Sets the offsets of blocks and returns the bytes in all.
using PlaceBlocks = std::function<size_t(std::vector<ArenaBlock>& blocks)>;

// Sets the offsets of `blocks` so that blocks with overlapping lifetimes do not overlap: largest first, each at the
// lowest offset that is free.  Returns the bytes in all.
size_t assign_offsets(std::vector<ArenaBlock>& blocks);

// The same with offsets that were found before.  Throws Error(kData) unless invariants 1 and 3 hold of them.
size_t set_offsets(std::vector<ArenaBlock>& blocks, std::span<const size_t> offsets);

// Every output must be a computed value (legalise sees to it), each state the target of one at most.
// `scratch_bytes`: what each group's kernel asks for.  `reuse` false gives every value its own bytes.
Storage plan_storage(const Program& program, const std::vector<Group>& groups, const std::vector<size_t>& scratch_bytes,
                     bool reuse = true, const PlaceBlocks& place_blocks = assign_offsets);

}  // namespace runner::backends
