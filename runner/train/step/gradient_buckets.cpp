#include "runner/train/step/gradient_buckets.h"

#include "backends/dist/buckets.h"

namespace runner::train {

bool may_reduce_in_buckets(const schema::Recipe& recipe) {
  return recipe.comm.hook == schema::CommHook::kNone;
}

GradientBuckets::GradientBuckets(const StepBuilder& builder, int64_t cap) {
  const nn::ParameterSet& parameters = builder.model().parameters;
  std::vector<nn::ParameterId> trained;
  std::vector<int64_t> bytes;
  for (nn::ParameterId id = 0; id < std::ssize(parameters.parameters()); ++id) {
    if (parameters.buffers()[static_cast<size_t>(parameters[id].buffer)].group < 0) continue;
    trained.push_back(id);
    bytes.push_back(parameters[id].elements() * static_cast<int64_t>(sizeof(float)));
  }
  for (const auto& bucket : backends::gradient_buckets(bytes, cap))
    buckets_.emplace_back(trained.begin() + bucket.first, trained.begin() + bucket.end);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    pieces_.push_back(joined(buckets_[b], parameters));
    for (const Piece& piece : pieces_[b]) {
      const int32_t state = builder.layout().find(ArrayRole::kGradients, piece.buffer);
      reduced_.push_back({static_cast<int32_t>(b), floats_of(state, piece.first, piece.count)});
    }
  }
}

std::vector<GradientBuckets::Piece> GradientBuckets::joined(const Bucket& bucket,
                                                            const nn::ParameterSet& parameters) const {
  std::vector<Piece> pieces;
  for (const nn::ParameterId id : bucket) {
    const nn::Parameter& parameter = parameters[id];
    if (!pieces.empty() && pieces.back().buffer == parameter.buffer &&
        pieces.back().first + pieces.back().count == parameter.offset)
      pieces.back().count = parameter.offset + parameter.elements() - pieces.back().first;
    else
      pieces.push_back({parameter.buffer, parameter.offset, parameter.elements()});
  }
  return pieces;
}

backends::StateBytes floats_of(int32_t state, int64_t first, int64_t count) {
  return {state, static_cast<size_t>(first) * sizeof(float), static_cast<size_t>(first + count) * sizeof(float)};
}

}  // namespace runner::train
