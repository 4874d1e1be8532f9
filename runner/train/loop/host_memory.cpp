#include "runner/train/loop/host_memory.h"

namespace runner::train {
namespace {

int64_t tensor_bytes(const data::Dataset& dataset) {
  if (dataset.shuffle_buffer() > 0) return 0;
  const bool targets = dataset.label_kind() == data::LabelKind::kTarget;
  const int64_t labels = targets ? dataset.outputs() * static_cast<int64_t>(sizeof(float))
                                 : dataset.label_width() * static_cast<int64_t>(sizeof(int64_t));
  return dataset.size() * (dataset.feature_shape().elements() * static_cast<int64_t>(sizeof(float)) + labels);
}

}  // namespace

HostMemory host_memory(const Session& session) {
  return {.weights = session.trainer.model().parameters.elements() * static_cast<int64_t>(sizeof(float)),
          .data = tensor_bytes(session.data.train) + (session.data.eval ? tensor_bytes(*session.data.eval) : 0),
          .processes = session.recipe.num_processes};
}

}  // namespace runner::train
