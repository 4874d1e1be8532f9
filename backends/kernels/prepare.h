// The kernels of each class of ops; prepare_kernel (dispatch.cpp) chooses by op.
#pragma once

#include <algorithm>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

Kernel prepare_reduce(const KernelRequest& request);  // sum, reduce_max, reduce_min
Kernel prepare_argmax(const KernelRequest& request);
Kernel prepare_copy(const KernelRequest& request);  // reshape, permute, expand, slice, pad, concat
Kernel prepare_gather(const KernelRequest& request);
Kernel prepare_scatter_add(const KernelRequest& request);
Kernel prepare_one_hot(const KernelRequest& request);
Kernel prepare_embedding(const KernelRequest& request);
Kernel prepare_embedding_grad(const KernelRequest& request);
Kernel prepare_softmax(const KernelRequest& request);        // softmax, log_softmax
Kernel prepare_cross_entropy(const KernelRequest& request);  // and its gradient
Kernel prepare_layer_norm(const KernelRequest& request);     // and its gradients
Kernel prepare_dropout_mask(const KernelRequest& request);
Kernel prepare_random(const KernelRequest& request);  // random_uniform, random_normal
Kernel prepare_all_reduce(const KernelRequest& request);

// Chunks for `work_ns` of work that can be cut in at most `pieces`: one below 20 µs, then about 10 µs each, at most 64.
int64_t chunk_count(double work_ns, int64_t pieces);

// Writes n registers as elements of `to`, with its rounding.
void store_rounded(Compute from, const std::byte* values, int64_t n, DType to, std::byte* target);

// Chunk `index` of `count` nearly equal parts of [0, size).
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
inline Range part_of(int64_t size, int64_t index, int64_t count) {
  return {size * index / count, size * (index + 1) / count};
}

}  // namespace runner::backends
