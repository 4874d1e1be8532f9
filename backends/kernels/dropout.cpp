// The dropout mask: each sample's elements are drawn from the sample's own stream (philox.h).

#include "backends/graph/program.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/make_kernel.h"
#include "backends/kernels/prepare.h"
#include "schema/error.h"

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
      loops().dropout(result<float>(arguments) + s * d.width, d.width, stream, d.threshold, d.kept);
    }
  });
}

}  // namespace

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
