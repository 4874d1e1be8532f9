#include "backends/ir/attributes.h"

#include <algorithm>
#include <functional>

#include "backends/collectives/collectives.h"

namespace runner::backends {
namespace {

// So that sizes can be added up.
constexpr int64_t kMostSize = int64_t{1} << 40;

bool in_range(int64_t value, int64_t end) {
  return 0 <= value && value < end;
}

bool are_sizes(std::span<const int64_t> attrs) {
  return std::ranges::all_of(attrs, [](int64_t size) { return in_range(size, kMostSize); });
}

bool are_axes(std::span<const int64_t> attrs, int rank) {
  return std::ranges::all_of(attrs, [&](int64_t axis) { return in_range(axis, rank); });
}

}  // namespace

bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs) {
  const int rank = operands.empty() ? 0 : operands[0].shape.rank();
  const auto axes = static_cast<size_t>(rank);
  const auto count = [&](size_t wanted) { return attrs.size() == wanted; };
  switch (op) {
    case Op::kInput: return count(2) && in_range(attrs[0], 3) && attrs[1] >= 0;
    case Op::kConstant:
    case Op::kLayerNorm:
    case Op::kLayerNormGradX:
    case Op::kLayerNormGradGamma:
    case Op::kRandomUniform:
    case Op::kRandomNormal: return count(1);
    case Op::kDropoutMask:
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad: return count(2);
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin:
      return are_axes(attrs, rank) && std::ranges::adjacent_find(attrs, std::greater_equal<>()) == attrs.end();
    case Op::kArgMax:
    case Op::kConcat:
    case Op::kGather:
    case Op::kScatterAdd: return count(1) && are_axes(attrs, rank);
    case Op::kPermute: return count(axes) && are_axes(attrs, rank);
    case Op::kSlice: return count(3 * axes) && are_sizes(attrs);
    case Op::kPad: return count(2 * axes) && are_sizes(attrs);
    case Op::kOneHot:
    case Op::kEmbeddingGrad: return count(1) && are_sizes(attrs);
    case Op::kMatmul:
      return (count(2) || count(3)) && std::ranges::all_of(attrs, [](int64_t a) { return in_range(a, 2); });
    case Op::kAllReduce:
      return count(2) && in_range(attrs[0], static_cast<int64_t>(Reduction::kMax) + 1) &&
             in_range(attrs[1], static_cast<int64_t>(Subject::kLoss) + 1);
    default: return attrs.empty();
  }
}

}  // namespace runner::backends
