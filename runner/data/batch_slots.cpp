#include "runner/data/batch_slots.h"

#include <algorithm>

namespace runner::data {
namespace {

using backends::aligned;
using backends::kAlignment;

// Returns zeroed memory, all of whose pages are committed.
std::byte* zeroed(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlignment}));
  std::fill_n(memory, bytes, std::byte{0});
  return memory;
}

template <class Value>
std::span<Value> values_at(std::byte* memory, size_t count) {
  return {reinterpret_cast<Value*>(memory), count};
}

}  // namespace

BatchLayout::BatchLayout(const Dataset& dataset, int64_t most, bool is_mixed) {
  const auto size = static_cast<size_t>(most);
  const LabelKind kind = dataset.label_kind();
  class_labels = kind == LabelKind::kClass && !is_mixed ? static_cast<size_t>(dataset.label_width()) : 0;
  targets = kind == LabelKind::kTarget || is_mixed ? static_cast<size_t>(dataset.outputs()) : 0;
  labels = 0;
  for (size_t i = 0; i < dataset.inputs().size(); ++i) {
    inputs[i] = labels;
    input_bytes[i] = dataset.inputs()[i].bytes();
    labels += aligned(size * input_bytes[i]);
  }
  weights = labels + aligned(size * (class_labels * sizeof(int64_t) + targets * sizeof(float)));
  ids = weights + aligned(size * sizeof(float));
  bytes = ids + aligned(size * sizeof(int64_t));
}

BatchSlots::BatchSlots(const BatchLayout& layout, int64_t count)
    : layout_(layout), slots_(static_cast<size_t>(count)), memory_(zeroed(slots_.size() * layout.bytes)) {}

void BatchSlots::lay_out(BatchSlot& slot, int64_t size, int64_t length) {
  const auto count = static_cast<size_t>(size);
  const bool has_token_labels = length > 0 && layout_.class_labels > 1;
  const size_t labels = has_token_labels ? static_cast<size_t>(length) : layout_.class_labels;
  std::byte* const memory = memory_.get() + static_cast<size_t>(&slot - slots_.data()) * layout_.bytes;
  slot.rows = {.ids = values_at<int64_t>(memory + layout_.ids, count),
               .inputs = {},
               .classes = values_at<int64_t>(memory + layout_.labels, count * labels),
               .targets = values_at<float>(memory + layout_.labels, count * layout_.targets)};
  for (size_t i = 0; i < kMaxInputs; ++i) {
    const size_t bytes = length > 0 ? static_cast<size_t>(length) * sizeof(int64_t) : layout_.input_bytes[i];
    slot.rows.inputs[i] = {memory + layout_.inputs[i], layout_.input_bytes[i] > 0 ? count * bytes : 0};
  }
  slot.weights = values_at<float>(memory + layout_.weights, count);
}

}  // namespace runner::data
