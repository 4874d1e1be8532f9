// Sums of channels: parts of the samples and of the channels, by shape only, each with sums of its own in f64; these
// are added in order. Batch normalisation is a group of element-wise ops.

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "backends/kernels/eltwise.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/rows_io.h"

namespace runner::backends {

namespace {

struct ChannelSums {
  DType a, x, means;  // storage of the operands; that of `a` for those that are left out
  size_t operands;
  int64_t samples, channels, cols;  // cols: elements of a channel of a sample
  int64_t sample_parts, channel_parts, chunks;

  // Rows that are converted at once.
  int64_t rows_at_once() const {
    constexpr int64_t kConverted = 4096;
    return is_native(a) && is_native(x) ? channels
                                        : std::clamp(kConverted / std::max<int64_t>(cols, 1), int64_t{1}, channels);
  }
};

// Scratch: the sums of all parts of the samples and the means, then two converted tensors for each chunk.
struct ChannelScratch {
  double *sums, *means;
  std::byte* converted;
  size_t chunk_bytes, bytes;

  ChannelScratch(const ChannelSums& c, std::byte* start) {
    ScratchRoom room(start);
    sums = room.take<double>(c.sample_parts * c.channels);
    means = room.take<double>(is_native(c.means) ? 0 : c.channels);
    const int64_t elems = is_native(c.a) && is_native(c.x) ? 0 : c.rows_at_once() * c.cols;
    chunk_bytes = 2 * aligned(static_cast<size_t>(elems) * sizeof(float));
    converted = room.take<std::byte>(static_cast<int64_t>(chunk_bytes) * c.chunks);
    bytes = room.size();
  }
};

// `means`: of the first of the rows.
template <class T>
void add_rows(const ChannelSums& c, const KernelArguments& arguments, const T* means, int64_t first_row, int64_t rows,
              double* sums, std::byte* converted, size_t room_bytes) {
  const auto read = [&](size_t operand, DType dtype) {
    return read_elements(arguments.operands[operand], dtype, first_row * c.cols, rows * c.cols,
                         reinterpret_cast<T*>(converted + operand * room_bytes));
  };
  const T* const a = read(0, c.a);
  const ChannelLoops<T>& of = loops().channels.of<T>();
  if (c.operands == 1) return of.add_values(sums, a, rows, c.cols);
  if (c.operands == 2) return of.add_squares(sums, a, means, rows, c.cols);
  of.add_products(sums, a, read(1, c.x), means, rows, c.cols);
}

template <class T>
void run_channel_sum(const ChannelSums& c, const KernelArguments& arguments) {
  const ChannelScratch scratch(c, arguments.scratch);
  const int64_t units = c.sample_parts * c.channel_parts;
  const T* const means = read_elements(arguments.operands.back(), c.means, 0, c.operands > 1 ? c.channels : 0,
                                       reinterpret_cast<T*>(scratch.means));
  arguments.pool.parallel_for(c.chunks, [&](int64_t chunk) {
    std::byte* const converted = scratch.converted + static_cast<size_t>(chunk) * scratch.chunk_bytes;
    const IndexRange<int64_t> range = part_of(units, chunk, c.chunks);
    for (int64_t unit = range.begin; unit < range.end; ++unit) {
      const int64_t part = unit / c.channel_parts;
      const IndexRange<int64_t> samples = part_of(c.samples, part, c.sample_parts);
      const IndexRange<int64_t> channels = part_of(c.channels, unit % c.channel_parts, c.channel_parts);
      double* const sums = scratch.sums + part * c.channels;
      std::fill(sums + channels.begin, sums + channels.end, 0.0);
      for (int64_t sample = samples.begin; sample < samples.end; ++sample)
        for (int64_t first = channels.begin; first < channels.end; first += c.rows_at_once())
          add_rows<T>(c, arguments, means + first, sample * c.channels + first,
                      std::min(c.rows_at_once(), channels.end - first), sums + first, converted,
                      scratch.chunk_bytes / 2);
    }
  });
  T* const results = result<T>(arguments);
  for (int64_t channel = 0; channel < c.channels; ++channel) {
    double sum = 0;
    for (int64_t part = 0; part < c.sample_parts; ++part) sum += scratch.sums[part * c.channels + channel];
    results[channel] = static_cast<T>(sum);
  }
}

Kernel prepare_channel_sum(const KernelRequest& request) {
  constexpr int64_t kMostSampleParts = 8, kUnits = 32;
  constexpr double kElementNs = 0.15;
  const Shape& shape = request.operands[0].shape;
  ChannelSums c{.a = request.operands[0].dtype,
                .x = request.operands[request.operands.size() == 3 ? 1 : 0].dtype,
                .means = request.operands.back().dtype,
                .operands = request.operands.size(),
                .samples = shape[0],
                .channels = shape[1],
                .cols = 1,
                .sample_parts = std::clamp<int64_t>(shape[0], 1, kMostSampleParts),
                .channel_parts = 1,
                .chunks = 1};
  for (int axis = 2; axis < shape.rank(); ++axis) c.cols *= shape[axis];
  c.channel_parts = std::clamp<int64_t>(kUnits / c.sample_parts, 1, std::max<int64_t>(c.channels, 1));
  c.chunks = chunk_count(kElementNs * static_cast<double>(shape.elements()), c.sample_parts * c.channel_parts);
  const std::string name = fmt::format("channel_sum{}.{}", c.operands, name_of(c.a));
  const size_t scratch = ChannelScratch(c, nullptr).bytes;
  if (c.a == DType::kF64) return make_kernel<run_channel_sum<double>>(name, c, scratch);
  return make_kernel<run_channel_sum<float>>(name, c, scratch);
}

Kernel prepare_batch_norm(const KernelRequest& request) {
  const TensorType& x = request.result;
  const auto inputs = static_cast<int16_t>(request.operands.size());
  EltwiseGroup group{.shape = x.shape, .inputs = {{x.dtype, {}}}, .constants = {}, .code = {}, .outputs = {}};
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    group.inputs[0].strides[static_cast<size_t>(axis)] = x.shape.strides()[static_cast<size_t>(axis)];
  for (int16_t i = 1; i < inputs; ++i) group.inputs.push_back({x.dtype, {0, 1}});
  const auto result = [&](int16_t i) { return static_cast<int16_t>(inputs + i); };
  group.code = {{Op::kMul, x.dtype, {1, 2, -1}},
                inputs > 3 ? EltwiseInstruction{Op::kSub, x.dtype, {3, result(0), -1}}
                           : EltwiseInstruction{Op::kNeg, x.dtype, {result(0), -1, -1}},
                {Op::kMul, x.dtype, {0, 2, -1}},
                {Op::kAdd, x.dtype, {result(2), result(1), -1}}};
  group.outputs = {result(3)};
  return prepare_eltwise(group);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// Calls body(i, channel) for each element of (B, C, …).
template <class Body>
void for_channels(const Shape& shape, const Body& body) {
  const int64_t cols = shape.elements() / std::max<int64_t>(shape[0] * shape[1], 1);
  for (int64_t i = 0; i < shape.elements(); ++i) body(i, i / cols % shape[1]);
}

void channel_sum_loop(const Call&, Operands in, Tensor& out) {
  for_channels(in[0].shape(), [&](int64_t i, int64_t c) {
    const Real a = in[0][i];
    switch (in.size()) {
      case 1: out[c] += a; break;
      case 2: out[c] += (a - in[1][c]) * (a - in[1][c]); break;
      default: out[c] += a * (in[1][i] - in[2][c]);
    }
  });
}

void batch_norm_loop(const Call&, Operands in, Tensor& out) {
  for_channels(in[0].shape(), [&](int64_t i, int64_t c) {
    out[i] = (in[0][i] - in[1][c]) * in[2][c] + (in.size() > 3 ? in[3][c] : 0);
  });
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kChannelSum = {.reference = reference::channel_sum_loop,
                                               .prepare = prepare_channel_sum};
constexpr OpKernels op_kernels::kBatchNorm = {.reference = reference::batch_norm_loop, .prepare = prepare_batch_norm};

}  // namespace runner::backends
