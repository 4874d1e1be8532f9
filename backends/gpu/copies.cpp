#include "backends/gpu/copies.h"

#include "backends/tensor/alignment.h"

namespace runner::backends::gpu {

void BatchCopy::set(std::span<const std::span<const std::byte>> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  copied_.clear();
  size_t total = 0;
  for (size_t input = 0; input < inputs_.size(); ++input) {
    if (inputs_[input].empty()) continue;
    copied_.push_back(input);
    total += aligned(inputs_[input].size());
  }
  memory_.grow_to(total);
  copies_.assign(inputs_.size(), nullptr);
  size_t offset = 0;
  for (const size_t input : copied_) {
    copies_[input] = memory_.data() + offset;
    offset += aligned(inputs_[input].size());
  }
}

void BatchCopy::launch(int32_t index) {
  const size_t input = copied_[static_cast<size_t>(index)];
  const std::span<const std::byte> from = inputs_[input];
  const ScopedSpan span(SpanKind::kTransfer, "batch", {.bytes = static_cast<int64_t>(from.size())});
  std::memcpy(const_cast<std::byte*>(copies_[input]), from.data(), from.size());
}

}  // namespace runner::backends::gpu
