// Random ops (philox.h). A dropout mask has one stream per sample, a random tensor one stream.

#include "backends/kernels/random.h"

#include <cmath>

#include "backends/ir/attention.h"
#include "backends/ir/program.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

struct DropoutMask {
  int64_t samples, width;
  bool is_of_weights;
  int64_t heads, tokens, keys;  // of attention weights
  uint32_t layer;
  uint64_t threshold;
  float kept;
  int64_t chunks;
};

void fill_weights_mask(const DropoutMask& d, const DropoutStream& stream, float* out) {
  for (int64_t head = 0; head < d.heads; ++head)
    for (int64_t token = 0; token < d.tokens; ++token, out += d.keys)
      loops().random.dropout(out, d.keys, HeadDropout::stream(stream, head), HeadDropout::block(token), d.threshold,
                             d.kept);
}

void run_dropout_mask(const DropoutMask& d, const KernelArguments& arguments) {
  const auto* key = operand<int64_t>(arguments, 0);
  const auto* ids = operand<int64_t>(arguments, 1);
  arguments.pool.parallel_for(d.chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> range = part_of(d.samples, chunk, d.chunks);
    for (int64_t s = range.begin; s < range.end; ++s) {
      const DropoutStream stream(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]),
                                 static_cast<uint64_t>(ids[s]), d.layer);
      float* const out = result<float>(arguments) + s * d.width;
      d.is_of_weights ? fill_weights_mask(d, stream, out)
                      : loops().random.dropout(out, d.width, stream, 0, d.threshold, d.kept);
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
    const IndexRange<int64_t> range = part_of(r.blocks, chunk, r.chunks);
    const int64_t first = 4 * range.begin, end = std::min(4 * range.end, r.elements);
    fill(result<float>(arguments) + first, end - first, stream, static_cast<uint32_t>(range.begin));
  });
}

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
                .is_of_weights = masks_weights(request.attrs),
                .heads = 0,
                .tokens = 0,
                .keys = 0,
                .layer = static_cast<uint32_t>(request.attrs[0]),
                .threshold = dropout_threshold(p),
                .kept = static_cast<float>(1.0 / (1.0 - p)),
                .chunks = 0};
  if (d.is_of_weights) {
    check_weights_mask(request.op, shape, request.attrs[0]);
    d.heads = shape[1], d.tokens = shape[2], d.keys = shape[3];
  }
  RUN_CHECK(d.is_of_weights || d.width < int64_t{1} << 34, ErrorKind::kRun,
            "dropout_mask: a sample of {} elements is too large", d.width);
  d.chunks = chunk_count(1.0 * static_cast<double>(shape.elements()), samples);
  return make_kernel<run_dropout_mask>("dropout_mask", d);
}

}  // namespace

void draw_initial(Distribution distribution, const ElementStream& stream, int64_t first, float scale,
                  std::span<float> values) {
  const RandomLoops& random = loops().random;
  const auto draw = distribution == Distribution::kNormal ? random.initial_normal : random.initial_uniform;
  draw(values.data(), std::ssize(values), stream, static_cast<uint64_t>(first), scale);
}

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// Of element e of the attention weights (H, T, S) of a sample.
uint32_t word_of_weight(const DropoutStream& stream, const Shape& shape, int64_t e) {
  const int64_t key = e % shape[3], row = e / shape[3];
  return HeadDropout::word(stream, row / shape[2], row % shape[2], key);
}

void dropout_mask_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t samples = out.shape()[0];
  const int64_t width = samples == 0 ? 0 : out.shape().elements() / samples;
  const double p = call.attr_f64(1);
  for (int64_t s = 0; s < samples; ++s) {
    const DropoutStream stream(static_cast<uint64_t>(in[0].integer(0)), static_cast<uint64_t>(in[0].integer(1)),
                               static_cast<uint64_t>(in[1].integer(s)), static_cast<uint32_t>(call.attr(0)));
    for (int64_t e = 0; e < width; ++e) {
      const uint32_t word = masks_weights(call.attrs)
                                ? word_of_weight(stream, out.shape(), e)
                                : stream.block(static_cast<uint32_t>(e / 4))[static_cast<size_t>(e % 4)];
      out[s * width + e] = word < dropout_threshold(p) ? 0 : 1 / (1 - p);
    }
  }
}

TensorStream tensor_stream(const Call& call, const Tensor& key, TensorStream::Use use) {
  return {static_cast<uint64_t>(key.integer(0)), static_cast<uint64_t>(key.integer(1)),
          static_cast<uint32_t>(call.attr(0)), use};
}

void random_uniform_loop(const Call& call, Operands in, Tensor& out) {
  const TensorStream stream = tensor_stream(call, in[0], TensorStream::Use::kUniform);
  for (int64_t e = 0; e < out.shape().elements(); ++e) {
    const uint32_t word = stream.block(static_cast<uint32_t>(e / 4))[static_cast<size_t>(e % 4)];
    out[e] = std::ldexp(static_cast<Real>(word >> 8), -24);
  }
}

// Box and Muller, "A note on the generation of random normal deviates", 1958: √(−2 ln u) (cos φ, sin φ) from two words,
// u from the first, rounded to f32, and φ from the second.
void random_normal_loop(const Call& call, Operands in, Tensor& out) {
  const TensorStream stream = tensor_stream(call, in[0], TensorStream::Use::kNormal);
  for (int64_t e = 0; e < out.shape().elements(); ++e) {
    const PhiloxCounter words = stream.block(static_cast<uint32_t>(e / 4));
    const auto pair = static_cast<size_t>(e % 4 / 2 * 2);
    const Real u = static_cast<float>(words[pair] >> 1) * 0x1p-31f + 0x1p-32f;
    const Real angle = 2 * std::acos(Real{-1}) * std::ldexp(static_cast<Real>(words[pair + 1]), -32);
    out[e] = std::sqrt(-2 * std::log(u)) * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kDropoutMask = {.reference = reference::dropout_mask_loop,
                                                .prepare = prepare_dropout_mask};
constexpr OpKernels op_kernels::kRandomUniform = {.reference = reference::random_uniform_loop,
                                                  .prepare = prepare_random};
constexpr OpKernels op_kernels::kRandomNormal = {.reference = reference::random_normal_loop, .prepare = prepare_random};

}  // namespace runner::backends
