// Convolution with oneDNN, in its own layouts of activations and weights.
//
// Results of samples: each is converted to oneDNN's layout, convolved and converted back while it is in the cache;
// small ones in steps of several samples. If there are few samples, the channels of their results are cut into pieces.
// The gradient of the weights is a sum over samples, which are cut into parts, and these into steps of so many samples
// that adding up the results of the steps takes little time.

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "backends/kernels/convolution.h"
#include "backends/kernels/onednn.h"
#include "backends/kernels/prepare.h"
#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

using dnnl::memory;

// Converts between a plain layout and that of a primitive.
struct Conversion {
  memory::desc from, to;
  dnnl::reorder primitive;
  int64_t block = 0;  // channels of a block, if our own loops convert
};

enum ConvTensor : size_t { kX, kW, kY };

// The tensor that an op computes; the others are its operands.
ConvTensor result_of(Op op) {
  return op == Op::kConv ? kY : op == Op::kConvGradX ? kX : kW;
}

// The primitive for a number of samples: its tensors in the layouts that it takes, and the conversions from or to plain
// layouts.
struct ConvStep {
  int64_t samples = 0;
  dnnl::primitive primitive;
  std::array<memory::desc, 3> plain, taken;  // by ConvTensor
  std::array<Conversion, 3> conversions;
  memory::desc scratch;

  bool converts(ConvTensor tensor) const { return plain[tensor] != taken[tensor]; }
};

// Memory objects of the steps of one chunk.
struct ConvCall {
  std::array<memory, 3> plain, taken;
  memory scratch;
};
struct ChunkCalls {
  std::vector<ConvCall> steps;
  dnnl::stream stream;
};
using ConvCalls = std::vector<ChunkCalls>;

struct DnnlConv {
  Op op;
  ConvShape shape;              // of a piece
  int64_t pieces;               // of the channels of the result of a sample
  std::vector<ConvStep> steps;  // of several samples; the second is for those that are left of a part or the batch
  int64_t parts, chunks;        // of the samples; the gradients of the weights of the parts are added up
  std::shared_ptr<OneDnnCalls<ConvCalls>> calls = std::make_shared<OneDnnCalls<ConvCalls>>();

  // Of the step that takes most: layouts may pad channels.
  size_t bytes(ConvTensor tensor) const {
    size_t most = 0;
    for (const ConvStep& step : steps) most = std::max(most, aligned(step.taken[tensor].get_size()));
    return most;
  }
  // Scratch of a chunk: x and y, the sums of a step, and what the primitive needs.
  size_t chunk_bytes() const {
    size_t primitive = 0;
    for (const ConvStep& step : steps) primitive = std::max(primitive, aligned(step.scratch.get_size()));
    return bytes(kX) + bytes(kY) + (op == Op::kConvGradW ? bytes(kW) : 0) + primitive;
  }
  // Scratch of all: the weights of all pieces, or the sums of all parts; then the chunks.
  size_t shared_bytes() const { return static_cast<size_t>(op == Op::kConvGradW ? parts : pieces) * bytes(kW); }
};

// ---- preparing -----------------------------------------------------------------------------------------------------

memory::dims dims_of(const Plane& plane, int64_t first, int64_t second, int64_t PlaneAxis::*size) {
  return {first, second, plane.h.*size, plane.w.*size};
}

// Plain and free layouts of the tensors for `samples` samples.
struct ConvDescs {
  std::array<memory::desc, 3> plain, any;
};
// `s`: the shape of a piece. `channels`: the channels of one group of x; a piece may have fewer.
ConvDescs descs_of(Op op, const ConvShape& s, int64_t samples, int64_t channels) {
  memory::dims dims[3] = {dims_of(s.plane, samples, s.groups * s.in, &PlaneAxis::size),
                          {s.out, s.in, s.plane.h.window.size, s.plane.w.window.size},
                          dims_of(s.plane, samples, s.groups * s.out, &PlaneAxis::windows)};
  if (s.groups > 1) dims[kW].insert(dims[kW].begin(), s.groups);
  const ConvTensor result = result_of(op);
  ConvDescs descs;
  for (const ConvTensor tensor : {kX, kW, kY}) {
    // The gradient of the weights is summed in f32.
    const DType dtype = tensor != result ? s.dtype : result == kW ? DType::kF32 : s.result;
    const DType plain = tensor == result ? s.result : s.dtype;
    const auto tag = dims[tensor].size() == 5 ? memory::format_tag::abcde : memory::format_tag::abcd;
    descs.plain[tensor] = memory::desc(dims[tensor], onednn_type(plain), tag);
    descs.any[tensor] = memory::desc(dims[tensor], onednn_type(dtype), memory::format_tag::any);
  }
  if (channels != s.in) {
    const int64_t elements = s.plane.elements();
    descs.plain[kW] =
        memory::desc(dims[kW], onednn_type(s.dtype), {channels * elements, elements, s.plane.w.window.size, 1});
  }
  return descs;
}

template <class PrimitiveDesc>
bool is_fast(const PrimitiveDesc& desc) {
  const std::string_view name = desc.impl_info_str();
  return name.starts_with("jit") || name.starts_with("brg");
}

// Channels of a block of `blocked`, if its channels are in whole blocks: 16 or 8 of them are contiguous.
int64_t block_of(const memory::desc& plain, const memory::desc& blocked) {
  if (plain.data_type() != blocked.data_type()) return 0;
  for (const auto& [block, tag] : {std::pair{16, memory::format_tag::aBcd16b}, {8, memory::format_tag::aBcd8b}})
    if (plain.dims()[1] % block == 0 && blocked == memory::desc(plain.dims(), plain.data_type(), tag)) return block;
  return 0;
}

// Unset if oneDNN has only slow implementations.
std::optional<ConvStep> make_step(Op op, const ConvShape& s, int64_t samples, int64_t channels) {
  const ConvDescs descs = descs_of(op, s, samples, channels);
  const auto direct = dnnl::algorithm::convolution_direct;
  const PlaneAxis &h = s.plane.h, &w = s.plane.w;
  const memory::dims strides{h.window.stride, w.window.stride}, before{h.window.before, w.window.before};
  const memory::dims dilates{h.window.dilation - 1, w.window.dilation - 1};
  // oneDNN computes the number of windows from the padding; what no window reaches is cut off.
  const auto after = [](const PlaneAxis& axis) {
    return (axis.windows - 1) * axis.window.stride + axis.window.extent() - axis.size - axis.window.before;
  };
  const memory::dims ends{after(h), after(w)};
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto& [x, weights, y] = descs.any;

  // The gradients refer to a forward primitive whose result has the dtype of the operands.
  const memory::desc forward_y(y.dims(), onednn_type(op == Op::kConv ? s.result : s.dtype), memory::format_tag::any);
  const memory::desc forward_x(x.dims(), onednn_type(s.dtype), memory::format_tag::any);
  const memory::desc forward_w(weights.dims(), onednn_type(s.dtype), memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, forward_x, forward_w, forward_y, strides, dilates, before, ends},
      attr, onednn_engine());
  ConvStep step{
      .samples = samples, .primitive = {}, .plain = descs.plain, .taken = {}, .conversions = {}, .scratch = {}};
  // `desc`: of the primitive. Returns whether it is fast.
  const auto use = [&](const auto& desc, const dnnl::primitive& primitive, const std::array<memory::desc, 3>& taken) {
    step.primitive = primitive;
    step.taken = taken;
    step.scratch = desc.scratchpad_desc();
    return is_fast(desc);
  };
  bool fast = false;
  if (op == Op::kConv) {
    fast = use(forward, dnnl::convolution_forward(forward),
               {forward.src_desc(), forward.weights_desc(), forward.dst_desc()});
  } else if (op == Op::kConvGradX) {
    const dnnl::convolution_backward_data::primitive_desc desc({direct, x, weights, y, strides, dilates, before, ends},
                                                               attr, onednn_engine(), forward);
    fast = use(desc, dnnl::convolution_backward_data(desc),
               {desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc()});
  } else {
    const dnnl::convolution_backward_weights::primitive_desc desc(
        {direct, x, weights, y, strides, dilates, before, ends}, attr, onednn_engine(), forward);
    fast = use(desc, dnnl::convolution_backward_weights(desc),
               {desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc()});
  }
  if (!fast) return std::nullopt;
  const ConvTensor result = result_of(op);
  for (const ConvTensor tensor : {kX, kW, kY}) {
    if (!step.converts(tensor)) continue;
    const memory::desc &from = tensor == result ? step.taken[tensor] : step.plain[tensor],
                       &to = tensor == result ? step.plain[tensor] : step.taken[tensor];
    // As measured: oneDNN's conversion of f32 to blocks is faster than ours, the others are slower.
    const bool is_ours_faster = tensor != kW && (tensor == result || s.dtype == DType::kBf16);
    step.conversions[tensor] = {from, to, {}, is_ours_faster ? block_of(step.plain[tensor], step.taken[tensor]) : 0};
    if (step.conversions[tensor].block > 0) continue;
    dnnl::primitive_attr user;
    user.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, user);
    if (pd.scratchpad_desc().get_size() > 0) return std::nullopt;
    step.conversions[tensor].primitive = dnnl::reorder(pd);
  }
  return step;
}

ConvCalls make_calls(const DnnlConv& conv) {
  ConvCalls calls(static_cast<size_t>(conv.chunks));
  for (ChunkCalls& chunk : calls) {
    chunk.stream = dnnl::stream(onednn_engine());
    for (const ConvStep& step : conv.steps) {
      ConvCall& call = chunk.steps.emplace_back();
      for (const ConvTensor tensor : {kX, kW, kY}) {
        call.plain[tensor] = onednn_memory(step.plain[tensor]);
        call.taken[tensor] = onednn_memory(step.taken[tensor]);
      }
      call.scratch = onednn_memory(step.scratch);
    }
  }
  return calls;
}

// ---- running -------------------------------------------------------------------------------------------------------

// Runs the steps of one chunk.
class ConvChunk {
 public:
  ConvChunk(const DnnlConv& conv, ChunkCalls& calls, const KernelArguments& arguments, int64_t chunk)
      : conv_(conv), calls_(calls), arguments_(arguments) {
    std::byte* at = arguments.scratch + conv.shared_bytes() + static_cast<size_t>(chunk) * conv.chunk_bytes();
    const auto take = [&](size_t bytes) { return std::exchange(at, at + bytes); };
    room_[kX] = take(conv.bytes(kX));
    room_[kY] = take(conv.bytes(kY));
    if (conv.op == Op::kConvGradW) room_[kW] = take(conv.bytes(kW));
    primitive_room_ = at;
  }

  // Converts the weights of all pieces from plain layout to the scratch of all chunks.
  void take_weights() {
    for (int64_t piece = 0; piece < conv_.pieces; ++piece) {
      room_[kW] = weights_room(piece);
      take(conv_.steps[0], calls_.steps[0], kW, plain_weights(piece));
    }
  }

  // Converts the sums of all chunks, in the first scratch, to the result.
  void give_weights() {
    ConvCall& call = calls_.steps[0];
    point(call.taken[kW], arguments_.scratch);
    give(conv_.steps[0], call, kW, arguments_.results[0]);
  }

  // A piece of a sample, or some samples, of y or of the gradient of x. The weights have been converted.
  void compute(IndexRange<int64_t> units) {
    const size_t index = units.size() == conv_.steps[0].samples ? 0 : 1;
    const ConvStep& step = conv_.steps[index];
    ConvCall& call = calls_.steps[index];
    const ConvTensor to = result_of(conv_.op), from = to == kY ? kX : kY;
    const int64_t piece = units.begin % conv_.pieces, sample = units.begin / conv_.pieces;
    take(step, call, from, operand_at(0, step, from, conv_.shape.groups > 1 ? units.begin : sample));
    point(call.taken[kW], step.converts(kW) ? weights_room(piece) : plain_weights(piece));
    std::byte* const result = arguments_.results[0] + sample_bytes(step, to) * static_cast<size_t>(units.begin);
    point(call.taken[to], step.converts(to) ? room_[to] : result);
    run(step, call);
    if (step.converts(to)) give(step, call, to, result);
  }

  // sums = the gradient of the weights over the samples of a part.
  void add_part(IndexRange<int64_t> samples, float* sums) {
    for (int64_t first = samples.begin; first < samples.end;) {
      const size_t index = samples.end - first >= conv_.steps[0].samples ? 0 : 1;
      const ConvStep& step = conv_.steps[index];
      ConvCall& call = calls_.steps[index];
      take(step, call, kX, operand_at(0, step, kX, first));
      take(step, call, kY, operand_at(1, step, kY, first));
      const bool is_first = first == samples.begin;
      std::byte* const target = is_first ? reinterpret_cast<std::byte*>(sums) : room_[kW];
      point(call.taken[kW], target);
      run(step, call);
      if (!is_first)
        add_elements(sums, reinterpret_cast<const float*>(target),
                     static_cast<int64_t>(step.taken[kW].get_size() / sizeof(float)));
      first += step.samples;
    }
  }

 private:
  size_t sample_bytes(const ConvStep& step, ConvTensor tensor) const {
    return step.plain[tensor].get_size() / static_cast<size_t>(step.samples);
  }
  std::byte* weights_room(int64_t piece) const {
    return arguments_.scratch + static_cast<size_t>(piece) * conv_.bytes(kW);
  }
  std::byte* plain_weights(int64_t piece) const {
    const ConvShape& s = conv_.shape;
    const bool is_part_of_channels = conv_.op == Op::kConvGradX && s.groups == 1;
    const int64_t elems = is_part_of_channels ? s.in * s.plane.elements() : s.groups * s.w_elems();
    return arguments_.operands[1] + static_cast<size_t>(piece * elems) * size_of(s.dtype);
  }
  std::byte* operand_at(size_t operand, const ConvStep& step, ConvTensor tensor, int64_t sample) const {
    return arguments_.operands[operand] + sample_bytes(step, tensor) * static_cast<size_t>(sample);
  }

  // Lets the primitive read `data`, converted if need be.
  void take(const ConvStep& step, ConvCall& call, ConvTensor tensor, std::byte* data) {
    if (!step.converts(tensor)) return point(call.taken[tensor], data);
    point(call.plain[tensor], data);
    point(call.taken[tensor], room_[tensor]);
    convert(step, call.plain[tensor], call.taken[tensor], tensor);
  }

  // Converts what the primitive has computed to `data`.
  void give(const ConvStep& step, ConvCall& call, ConvTensor tensor, std::byte* data) {
    point(call.plain[tensor], data);
    convert(step, call.taken[tensor], call.plain[tensor], tensor);
  }

  void convert(const ConvStep& step, const memory& from, const memory& to, ConvTensor tensor) {
    if (const int64_t block = step.conversions[tensor].block; block > 0) {
      const auto* const source = static_cast<const std::byte*>(from.get_data_handle());
      auto* const target = static_cast<std::byte*>(to.get_data_handle());
      return convert_blocks(step, tensor, block, source, target);
    }
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    execute(step.conversions[tensor].primitive, calls_.stream, args, name_of(conv_.op));
  }

  // A block of channels is a matrix: (block, elements of the plane), transposed in oneDNN's layout.
  void convert_blocks(const ConvStep& step, ConvTensor tensor, int64_t block, const std::byte* from, std::byte* to) {
    const memory::dims dims = step.plain[tensor].dims();
    const int64_t elems = dims[2] * dims[3], blocks = dims[0] * dims[1] / block;
    const bool is_f32 = step.plain[tensor].data_type() == memory::data_type::f32;
    const auto transpose = is_f32 ? loops().transpose.bytes_4 : loops().transpose.bytes_2;
    const size_t bytes = static_cast<size_t>(block * elems) * (is_f32 ? 4 : 2);
    const bool to_plain = tensor == result_of(conv_.op);
    const int64_t rows = to_plain ? elems : block, cols = to_plain ? block : elems;
    for (int64_t i = 0; i < blocks; ++i, from += bytes, to += bytes) transpose(to, rows, from, cols, rows, cols);
  }

  void run(const ConvStep& step, ConvCall& call) {
    // By the result, then by tensor.
    constexpr int kArguments[][3] = {{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                     {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                     {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
    const auto& names = kArguments[result_of(conv_.op)];
    point(call.scratch, primitive_room_);
    const dnnl_exec_arg_t args[] = {{names[kX], call.taken[kX].get()},
                                    {names[kW], call.taken[kW].get()},
                                    {names[kY], call.taken[kY].get()},
                                    {DNNL_ARG_SCRATCHPAD, call.scratch.get()}};
    execute(step.primitive, calls_.stream, args, name_of(conv_.op));
  }

  const DnnlConv& conv_;
  ChunkCalls& calls_;
  const KernelArguments& arguments_;
  std::array<std::byte*, 3> room_{};  // by ConvTensor
  std::byte* primitive_room_;
};

using BorrowedConvCalls = OneDnnCalls<ConvCalls>::Borrowed;

void run_samples(const DnnlConv& conv, const KernelArguments& arguments) {
  use_one_openmp_thread();
  BorrowedConvCalls calls(*conv.calls, [&] { return make_calls(conv); });
  if (conv.steps[0].converts(kW)) ConvChunk(conv, (*calls)[0], arguments, 0).take_weights();
  arguments.pool.parallel_for(conv.chunks, [&](int64_t chunk) {
    use_one_openmp_thread();
    ConvChunk worker(conv, (*calls)[static_cast<size_t>(chunk)], arguments, chunk);
    const int64_t units = conv.shape.batch * conv.pieces, each = conv.steps[0].samples;
    const IndexRange<int64_t> steps = part_of(ceil_div(units, each), chunk, conv.chunks);
    for (int64_t step = steps.begin; step < steps.end; ++step)
      worker.compute({step * each, std::min((step + 1) * each, units)});
  });
}

void run_weights(const DnnlConv& conv, const KernelArguments& arguments) {
  use_one_openmp_thread();
  BorrowedConvCalls calls(*conv.calls, [&] { return make_calls(conv); });
  const auto sums_of = [&](int64_t part) {
    return reinterpret_cast<float*>(arguments.scratch + static_cast<size_t>(part) * conv.bytes(kW));
  };
  arguments.pool.parallel_for(conv.chunks, [&](int64_t chunk) {
    use_one_openmp_thread();
    ConvChunk worker(conv, (*calls)[static_cast<size_t>(chunk)], arguments, chunk);
    const IndexRange<int64_t> parts = part_of(conv.parts, chunk, conv.chunks);
    for (int64_t part = parts.begin; part < parts.end; ++part)
      worker.add_part(part_of(conv.shape.batch, part, conv.parts), sums_of(part));
  });
  const auto elems = static_cast<int64_t>(conv.steps[0].taken[kW].get_size() / sizeof(float));
  add_parts(arguments.pool, sums_of(0), conv.parts, sums_of(1) - sums_of(0), elems, [](int64_t, int64_t) {});
  if (conv.steps[0].converts(kW))
    ConvChunk(conv, (*calls)[0], arguments, 0).give_weights();
  else
    std::copy_n(arguments.scratch, conv.steps[0].plain[kW].get_size(), arguments.results[0]);
}

// ---- choosing ------------------------------------------------------------------------------------------------------

// The number of groups, or of channels of the result of one group: it is divided if there are few samples.
int64_t& cut_channels(Op op, ConvShape& s) {
  if (s.groups > 1) return s.groups;
  return op == Op::kConv ? s.out : s.in;
}

// The number of pieces, which fill vectors.
int64_t pieces_of(Op op, ConvShape s) {
  constexpr int64_t kVector = 16;
  const int64_t channels = cut_channels(op, s), vectors = channels / kVector;
  if (op == Op::kConvGradW || channels % kVector != 0) return 1;
  int64_t pieces = std::clamp(ceil_div(kLeastConvUnits, s.batch), int64_t{1}, vectors);
  while (vectors % pieces != 0) --pieces;
  return pieces;
}

// Parts of the samples: several, unless their sums would take too much memory.
int64_t parts_of_samples(const ConvShape& s) {
  const int64_t fitting = std::max<int64_t>(2, kMostConvSums / (s.groups * s.w_elems()));
  return std::min({kLeastConvUnits, fitting, s.batch});
}

// Sizes in samples of the steps of a gradient of weights: so many samples that adding its sums takes about a twentieth
// of the time, and what is left of a part, sample by sample.
std::vector<int64_t> steps_of_sums(const ConvShape& s, int64_t part) {
  constexpr int64_t kWindows = 1200;
  const int64_t step = std::clamp<int64_t>(ceil_div(kWindows, s.plane.windows()), 1, part);
  return step > 1 ? std::vector<int64_t>{step, 1} : std::vector<int64_t>{1};
}

// Sizes in samples of the steps of other results: several small samples, and what is left of the batch.
std::vector<int64_t> steps_of_samples(const ConvShape& s) {
  constexpr int64_t kWindows = 256;
  const int64_t step =
      std::clamp<int64_t>(kWindows / s.plane.windows(), 1, std::max(s.batch / kLeastConvUnits, int64_t{1}));
  return s.batch % step > 0 ? std::vector<int64_t>{step, s.batch % step} : std::vector<int64_t>{step};
}

// make_step(), unset also for a shape that oneDNN refuses.
std::optional<ConvStep> try_step(Op op, const ConvShape& s, int64_t samples, int64_t channels) {
  try {
    return make_step(op, s, samples, channels);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return std::nullopt;
    throw;
  }
}

// Steps of these sizes, which share the weights or add to the same sums. Unset if there are no fast ones.
std::optional<std::vector<ConvStep>> make_steps(Op op, const ConvShape& s, const std::vector<int64_t>& sizes,
                                                int64_t channels) {
  std::vector<ConvStep> steps;
  for (const int64_t size : sizes) {
    std::optional<ConvStep> step = try_step(op, s, size, channels);
    if (!step || (!steps.empty() && step->taken[kW] != steps[0].taken[kW])) return std::nullopt;
    steps.push_back(std::move(*step));
  }
  return steps;
}

std::optional<DnnlConv> make_conv(Op op, const ConvShape& s) {
  DnnlConv conv{.op = op, .shape = s, .pieces = pieces_of(op, s), .steps = {}, .parts = 1, .chunks = 1};
  cut_channels(op, conv.shape) /= conv.pieces;
  if (op == Op::kConvGradW) conv.parts = parts_of_samples(s);
  const std::vector<int64_t> single{1};
  const std::vector<int64_t> sizes = op == Op::kConvGradW ? steps_of_sums(s, s.batch / conv.parts)  // or one more
                                     : conv.pieces > 1    ? single
                                                          : steps_of_samples(s);
  std::optional<std::vector<ConvStep>> steps = make_steps(op, conv.shape, sizes, s.in);
  if (!steps && sizes != single) steps = make_steps(op, conv.shape, single, s.in);
  if (!steps) return std::nullopt;
  conv.steps = *std::move(steps);
  const double gflops = s.dtype == DType::kBf16 ? 200 : 100;
  const int64_t units = op == Op::kConvGradW ? conv.parts : ceil_div(s.batch * conv.pieces, conv.steps[0].samples);
  conv.chunks = chunk_count(2 * s.products() / gflops, units);
  return conv;
}

// Bytes of the three tensors in f32.
size_t bytes_of(const ConvShape& s) {
  return static_cast<size_t>(s.groups * (s.batch * (s.x_elems() + s.y_elems()) + s.w_elems())) * sizeof(float);
}

}  // namespace

std::optional<Kernel> prepare_conv_dnnl(Op op, const ConvShape& shape) {
  use_one_openmp_thread();
  try {
    std::optional<DnnlConv> conv = make_conv(op, shape);
    if (!conv) return std::nullopt;
    conv->calls->add(make_calls(*conv));
    const size_t scratch = conv->shared_bytes() + static_cast<size_t>(conv->chunks) * conv->chunk_bytes();
    const std::string name = fmt::format("{}.dnnl.{}", name_of(op), name_of(shape.dtype));
    if (op == Op::kConvGradW) return make_kernel<run_weights>(name, std::move(*conv), scratch);
    return make_kernel<run_samples>(name, std::move(*conv), scratch);
  } catch (const dnnl::error& error) {
    check_available(bytes_of(shape));  // it names exhausted memory only with some primitives
    fail(ErrorKind::kRun, "{}: oneDNN failed to prepare: {}", name_of(op), error.what());
  }
}

}  // namespace runner::backends
