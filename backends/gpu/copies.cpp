#include "backends/gpu/copies.h"

#include "backends/tensor/alignment.h"
#include "schema/error.h"

namespace runner::backends::gpu {

void StagedBatch::stage(const Program& program, std::span<const std::byte* const> batch) {
  from_.assign(batch.begin(), batch.end());
  bytes_.clear();
  size_t total = 0;
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kBatch) {
      bytes_.push_back(program.type(input.value).bytes());
      total += aligned(bytes_.back());
    }
  RUN_ASSERT(bytes_.size() == batch.size());
  if (total > memory_.bytes()) {
    memory_ = {};  // before more is taken
    memory_ = Arena(total);
  }
  staged_.clear();
  size_t offset = 0;
  for (const size_t bytes : bytes_) {
    staged_.push_back(memory_.data() + offset);
    offset += aligned(bytes);
  }
}

void StagedBatch::launch(int32_t index) {
  const auto input = static_cast<size_t>(index);
  const ScopedSpan span(SpanKind::kTransfer, "batch", {.bytes = static_cast<int64_t>(bytes_[input])});
  if (bytes_[input] > 0) std::memcpy(const_cast<std::byte*>(staged_[input]), from_[input], bytes_[input]);
}

}  // namespace runner::backends::gpu
