#include "runner/train/step/factored_gradients.h"

#include "runner/train/step/declared_step.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/loss_scaler.h"

namespace runner::train {

// A layout depends on the shapes of a batch. A device with bf16 floats would round each rank's product.
bool may_factor_gradients(const schema::Recipe& recipe, const StepBuilder& builder) {
  const bool is_rounded = device_rules(recipe).has_bf16_floats &&
                          (recipe.mixed_precision != schema::Precision::kNo || recipe.downcast_bf16);
  return !recipe.train.auto_batch_size && recipe.comm.hook == schema::CommHook::kNone && !first_scale(recipe) &&
         !is_rounded && !builder.varies(true) && !builder.has_lengths();
}

FactoredGradients::FactoredGradients(const StepBuilder& builder, backends::Device& device,
                                     backends::ProcessGroup& ranks)
    : builder_(builder), device_(device), ranks_(ranks) {}

const FactoredLayout* FactoredGradients::layout(int64_t largest) {
  const auto [entry, is_new] = layouts_.try_emplace(largest);
  FactoredLayout& layout = entry->second;
  if (is_new && largest > 0) layout = factored_layout(builder_, builder_.record(largest, /*training=*/true));
  return layout.elements > 0 ? &layout : nullptr;
}

const FactoredLayout* FactoredGradients::begin_batch(int64_t largest) {
  const FactoredLayout* const layout = this->layout(largest);
  if (layout != nullptr) make_room(layout->elements);
  return layout;
}

void FactoredGradients::make_room(int64_t elements) {
  if (elements <= room_) return;
  room_ = elements;
  const backends::TensorType type{backends::DType::kF32, backends::Shape{elements}};
  const SharedRows rows = share_rows(type, "factored gradients", ranks_);
  of_rank_.clear();
  for (int rank = 0; rank < ranks_.size(); ++rank) of_rank_.push_back(device_.wrap(rows.of(rank), type.bytes()));
}

void FactoredGradients::write_zeros(const FactoredLayout& layout) {
  const std::vector<std::byte> zeros(static_cast<size_t>(layout.elements) * sizeof(float));
  device_.write(mine(), 0, zeros);
}

}  // namespace runner::train
