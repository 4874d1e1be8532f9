#include "backends/kernels/prepare.h"

#include <algorithm>

#include "backends/ir/op.h"
#include "backends/kernels/philox.h"
#include "schema/base/error.h"

namespace runner::backends {

int64_t chunk_count(double work_ns, int64_t pieces) {
  constexpr double kInlineNs = 20'000, kChunkNs = 10'000;
  constexpr double kMaxChunks = 64;
  if (work_ns < kInlineNs) return std::min<int64_t>(pieces, 1);
  return std::min(static_cast<int64_t>(std::min(work_ns / kChunkNs, kMaxChunks)), pieces);
}

void check_weights_mask(Op op, const Shape& weights, int64_t layer) {
  RUN_CHECK(weights[1] <= HeadDropout::kMostHeads && std::max(weights[2], weights[3]) <= HeadDropout::kMostTokens &&
                layer < HeadDropout::kMostLayers,
            ErrorKind::kRun, "{}: a dropout mask of weights {} in layer {} is too large", name_of(op),
            weights.to_string(), layer);
}

void store_rounded(Compute from, const std::byte* values, int64_t n, DType to, std::byte* target) {
  constexpr int64_t kBlockElems = 1024;
  const EltwiseLoops& eltwise = loops().eltwise;
  alignas(64) std::byte block[kBlockElems * 8];
  for (int64_t i = 0; i < n; i += kBlockElems) {
    const int64_t size = std::min(kBlockElems, n - i);
    const std::byte* source = values + static_cast<size_t>(i) * size_of(from);
    eltwise.cast[static_cast<size_t>(from)][static_cast<size_t>(to)](block, source, size);
    eltwise.store[static_cast<size_t>(to)](target + static_cast<size_t>(i) * size_of(to), block, size);
  }
}

}  // namespace runner::backends
