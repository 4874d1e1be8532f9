#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/tpu/hbm.h"

namespace runner::backends::tpu {
namespace {

bool live_together(const HeapBlock& a, const HeapBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Returns the offset of the smallest gap that fits `block` between the placed blocks that are live with it, or the end
// of these if no gap fits. `placed`: sorted by offset.
int64_t smallest_gap(std::span<const HeapBlock* const> placed, const HeapBlock& block) {
  int64_t end = 0, best = -1, smallest = std::numeric_limits<int64_t>::max();
  for (const HeapBlock* other : placed) {
    if (!live_together(*other, block)) continue;
    const int64_t gap = other->offset - end;
    if (gap >= block.bytes && gap < smallest) {
      smallest = gap;
      best = end;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return best < 0 ? end : best;
}

}  // namespace

int64_t pack_best_fit(std::span<HeapBlock> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  int64_t total = 0;
  std::vector<const HeapBlock*> placed;  // sorted by offset
  for (const size_t i : order) {
    HeapBlock& block = blocks[i];
    if (block.bytes == 0) break;  // all remaining blocks are empty too
    block.offset = smallest_gap(placed, block);
    total = std::max(total, block.offset + block.bytes);
    const auto before = [](const HeapBlock* a, const HeapBlock* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &block, before), &block);
  }
  return total;
}

Peak peak_step(std::span<const HeapBlock> blocks, int steps) {
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const HeapBlock& block : blocks) {
    change[static_cast<size_t>(block.first)] += block.bytes;
    change[static_cast<size_t>(block.last) + 1] -= block.bytes;
  }
  Peak peak;
  int64_t live = 0;
  for (int step = 0; step < steps; ++step) {
    live += change[static_cast<size_t>(step)];
    if (live > peak.bytes) peak = {step, live};
  }
  return peak;
}

}  // namespace runner::backends::tpu
