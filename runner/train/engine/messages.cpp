#include "runner/train/engine/messages.h"

#include "runner/train/engine/declared_step.h"
#include "runner/train/engine/device_rules.h"
#include "runner/train/engine/loss_scaler.h"

namespace runner::train {

// A device with bf16 floats would round each rank's product.
bool may_send_messages(const schema::Recipe& recipe, const StepBuilder& builder) {
  const bool is_rounded = device_rules(recipe).has_bf16_floats &&
                          (recipe.mixed_precision != schema::Precision::kNo || recipe.downcast_bf16);
  return !recipe.train.auto_batch_size && recipe.comm.hook == schema::CommHook::kNone && !first_scale(recipe) &&
         !is_rounded && !builder.varies(true);
}

Messages::Messages(const StepBuilder& builder, backends::Device& device, backends::ProcessGroup& ranks)
    : builder_(builder), device_(device), ranks_(ranks) {}

const MessageLayout* Messages::layout(int64_t largest) {
  const auto [entry, is_new] = layouts_.try_emplace(largest);
  MessageLayout& layout = entry->second;
  if (is_new && largest > 0) layout = message_layout(builder_, builder_.record(largest, /*training=*/true));
  return layout.elements > 0 ? &layout : nullptr;
}

const MessageLayout* Messages::begin_batch(int64_t largest) {
  const MessageLayout* const layout = this->layout(largest);
  if (layout != nullptr) make_room(layout->elements);
  return layout;
}

void Messages::make_room(int64_t elements) {
  if (elements <= room_) return;
  room_ = elements;
  const backends::TensorType type{backends::DType::kF32, backends::Shape{elements}};
  const SharedRows messages = share_rows(type, "messages", ranks_);
  of_rank_.clear();
  for (int rank = 0; rank < ranks_.size(); ++rank) of_rank_.push_back(device_.wrap(messages.of(rank), type.bytes()));
}

void Messages::send_nothing(const MessageLayout& layout) {
  const std::vector<std::byte> zeros(static_cast<size_t>(layout.elements) * sizeof(float));
  device_.write(mine(), 0, zeros);
}

}  // namespace runner::train
