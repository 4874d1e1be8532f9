// Random ops.  A dropout mask draws each sample's elements from the sample's own stream, a random tensor draws all of
// them from one (philox.h).

#include "backends/ir/program.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/make_kernel.h"
#include "backends/kernels/prepare.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

struct DropoutMask {
  int64_t samples, width;
  uint32_t layer;
  uint64_t threshold;
  float kept;
  int64_t chunks;
};

void run_dropout_mask(const DropoutMask& d, const KernelArguments& arguments) {
  const auto* key = operand<int64_t>(arguments, 0);
  const auto* ids = operand<int64_t>(arguments, 1);
  arguments.pool.parallel_for(d.chunks, [&](int64_t chunk) {
    const Range range = part_of(d.samples, chunk, d.chunks);
    for (int64_t s = range.begin; s < range.end; ++s) {
      const DropoutStream stream(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]),
                                 static_cast<uint64_t>(ids[s]), d.layer);
      loops().random.dropout(result<float>(arguments) + s * d.width, d.width, stream, d.threshold, d.kept);
    }
  });
}

struct RandomTensor {
  int64_t elements;
  uint32_t stream;
  TensorStream::Use use;
  int64_t blocks, chunks;
};

void run_random(const RandomTensor& r, const KernelArguments& arguments) {
  const auto* key = operand<int64_t>(arguments, 0);
  const TensorStream stream(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]), r.stream, r.use);
  const auto fill = r.use == TensorStream::Use::kNormal ? loops().random.normal : loops().random.uniform;
  arguments.pool.parallel_for(r.chunks, [&](int64_t chunk) {
    const Range range = part_of(r.blocks, chunk, r.chunks);
    const int64_t first = 4 * range.begin, end = std::min(4 * range.end, r.elements);
    fill(result<float>(arguments) + first, end - first, stream, static_cast<uint32_t>(range.begin));
  });
}

}  // namespace

Kernel prepare_random(const KernelRequest& request) {
  const bool normal = request.op == Op::kRandomNormal;
  const int64_t elements = request.result.shape.elements();
  RUN_CHECK(elements < int64_t{1} << 34, ErrorKind::kRun, "{}: a tensor of {} elements is too large",
            name_of(request.op), elements);
  const int64_t blocks = (elements + 3) / 4;
  const double element_ns = normal ? 1.0 : 0.5;
  return make_kernel<run_random>(
      std::string(name_of(request.op)),
      RandomTensor{.elements = elements,
                   .stream = static_cast<uint32_t>(request.attrs[0]),
                   .use = normal ? TensorStream::Use::kNormal : TensorStream::Use::kUniform,
                   .blocks = blocks,
                   .chunks = chunk_count(element_ns * static_cast<double>(elements), blocks)});
}

Kernel prepare_dropout_mask(const KernelRequest& request) {
  const Shape& shape = request.result.shape;
  const double p = unpack_f64(request.attrs[1]);
  const int64_t samples = shape[0];
  DropoutMask d{.samples = samples,
                .width = samples == 0 ? 0 : shape.elements() / samples,
                .layer = static_cast<uint32_t>(request.attrs[0]),
                .threshold = dropout_threshold(p),
                .kept = static_cast<float>(1.0 / (1.0 - p)),
                .chunks = 0};
  RUN_CHECK(d.width < int64_t{1} << 34, ErrorKind::kRun, "dropout_mask: a sample of {} elements is too large", d.width);
  d.chunks = chunk_count(1.0 * static_cast<double>(shape.elements()), samples);
  return make_kernel<run_dropout_mask>("dropout_mask", d);
}

}  // namespace runner::backends
