#include "backends/gpu/batch_reads.h"

#include "backends/ir/needed.h"

namespace runner::backends::gpu {

std::vector<BatchRead> batch_reads_of(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<BatchRead> reads;
  size_t batch = 0;
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const Input& input = program.inputs()[i];
    if (input.kind != InputKind::kBatch) continue;
    const auto bytes = static_cast<int64_t>(program.type(input.value).bytes());
    if (needed[static_cast<size_t>(input.value)] != 0 && bytes > 0) reads.push_back({batch, i, bytes});
    ++batch;
  }
  return reads;
}

}  // namespace runner::backends::gpu
