#include "backends/ir/op.h"
#include "backends/kernels/matmul.h"
#include "backends/kernels/prepare.h"
#include "schema/base/error.h"

namespace runner::backends {

Kernel prepare_kernel(const KernelRequest& request) {
  switch (request.op) {
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin: return prepare_reduce(request);
    case Op::kArgMax: return prepare_argmax(request);
    case Op::kReshape:
    case Op::kDetach:
    case Op::kPermute:
    case Op::kExpand:
    case Op::kSlice:
    case Op::kPad:
    case Op::kConcat: return prepare_copy(request);
    case Op::kGather: return prepare_gather(request);
    case Op::kScatterAdd: return prepare_scatter_add(request);
    case Op::kOneHot: return prepare_one_hot(request);
    case Op::kEmbedding: return prepare_embedding(request);
    case Op::kEmbeddingGrad: return prepare_embedding_grad(request);
    case Op::kMatmul: return prepare_matmul(request);
    case Op::kSoftmax:
    case Op::kLogSoftmax: return prepare_softmax(request);
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad: return prepare_cross_entropy(request);
    case Op::kLayerNorm:
    case Op::kLayerNormGradX:
    case Op::kLayerNormGradGamma: return prepare_layer_norm(request);
    case Op::kDropoutMask: return prepare_dropout_mask(request);
    case Op::kRandomUniform:
    case Op::kRandomNormal: return prepare_random(request);
    case Op::kAllReduce: return prepare_all_reduce(request);
    default: fail(ErrorKind::kRun, "{}: has no kernel of its own", name_of(request.op));
  }
}

int64_t chunk_count(double work_ns, int64_t pieces) {
  constexpr double kInlineNs = 20'000, kChunkNs = 10'000;
  constexpr double kMostChunks = 64;
  if (work_ns < kInlineNs) return std::min<int64_t>(pieces, 1);
  return std::min(static_cast<int64_t>(std::min(work_ns / kChunkNs, kMostChunks)), pieces);
}

}  // namespace runner::backends
