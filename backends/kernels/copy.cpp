// Movement ops as strided copies.

#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

namespace {

using Dims = std::array<int64_t, Shape::kMaxRank>;

// dst[Σ i·dst_strides] = src[Σ i·src_strides] for every index i of the box; strides in elements.
struct Box {
  size_t operand = 0;
  int rank = 0;
  Dims dims{}, src_strides{}, dst_strides{};
  int64_t src_offset = 0, dst_offset = 0;

  int64_t elements() const {
    int64_t n = 1;
    for (int axis = 0; axis < rank; ++axis) n *= dims[static_cast<size_t>(axis)];
    return n;
  }
};

struct Copies {
  size_t element_bytes;
  size_t clear_bytes;  // of the result, zeroed first
  std::vector<Box> boxes;
};

// ---- preparing -----------------------------------------------------------------------------------------------------

// Drops axes of size 1 and merges adjacent axes that are contiguous on both sides. The result has at least one axis.
Box collapsed(const Box& box) {
  Box out = box;
  out.rank = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(box.rank); ++axis) {
    const int64_t dim = box.dims[axis];
    if (dim == 1) continue;
    const auto last = static_cast<size_t>(out.rank - 1);
    if (out.rank > 0 && out.src_strides[last] == box.src_strides[axis] * dim &&
        out.dst_strides[last] == box.dst_strides[axis] * dim) {
      out.dims[last] *= dim;
    } else {
      out.dims[last + 1] = dim;
      ++out.rank;
    }
    out.src_strides[static_cast<size_t>(out.rank - 1)] = box.src_strides[axis];
    out.dst_strides[static_cast<size_t>(out.rank - 1)] = box.dst_strides[axis];
  }
  if (out.rank == 0) {
    out.rank = 1;
    out.dims[0] = out.src_strides[0] = out.dst_strides[0] = 1;
  }
  return out;
}

// Moves the axis with source stride 1 next to the last axis, which has destination stride 1. Together they form a plane
// that copy_plane() transposes.
Box with_planes(Box box) {
  const auto last = static_cast<size_t>(box.rank - 1);
  for (size_t axis = 0; axis + 1 < last; ++axis)
    if (box.src_strides[axis] == 1)
      for (Dims* of_axis : {&box.dims, &box.src_strides, &box.dst_strides})
        std::swap((*of_axis)[axis], (*of_axis)[last - 1]);
  return box;
}

// Reads every element of the result from operand 0 with these strides.
Box whole_result(const Shape& result, const Dims& src_strides) {
  Box box{.rank = result.rank(), .src_strides = src_strides, .dst_strides = result.strides()};
  std::copy(result.dims().begin(), result.dims().end(), box.dims.begin());
  return box;
}

// Writes every element of an operand to the result, the first at dst_offset.
Box whole_operand(size_t operand, const Shape& shape, const Shape& result, int64_t dst_offset) {
  Box box{.operand = operand, .rank = shape.rank(), .src_strides = shape.strides(), .dst_strides = result.strides()};
  std::copy(shape.dims().begin(), shape.dims().end(), box.dims.begin());
  box.dst_offset = dst_offset;
  return box;
}

Box permute_box(const KernelRequest& request) {
  const Dims strides = request.operands[0].shape.strides();
  Dims permuted{};
  for (size_t axis = 0; axis < request.attrs.size(); ++axis)
    permuted[axis] = strides[static_cast<size_t>(request.attrs[axis])];
  return whole_result(request.result.shape, permuted);
}

Box expand_box(const KernelRequest& request) {
  const Shape& shape = request.operands[0].shape;
  const int lead = request.result.shape.rank() - shape.rank();
  const Dims strides = shape.strides();
  Dims expanded{};
  for (int axis = 0; axis < shape.rank(); ++axis)
    expanded[static_cast<size_t>(axis + lead)] = shape[axis] == 1 ? 0 : strides[static_cast<size_t>(axis)];
  return whole_result(request.result.shape, expanded);
}

Box slice_box(const KernelRequest& request) {
  const Dims strides = request.operands[0].shape.strides();
  Dims steps{};
  int64_t offset = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(request.result.shape.rank()); ++axis) {
    offset += request.attrs[3 * axis] * strides[axis];
    steps[axis] = request.attrs[3 * axis + 2] * strides[axis];
  }
  Box box = whole_result(request.result.shape, steps);
  box.src_offset = offset;
  return box;
}

Box pad_box(const KernelRequest& request) {
  const Dims strides = request.result.shape.strides();
  int64_t offset = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(request.result.shape.rank()); ++axis)
    offset += request.attrs[2 * axis] * strides[axis];
  return whole_operand(0, request.operands[0].shape, request.result.shape, offset);
}

Box whole_box(const KernelRequest& request) {
  return whole_operand(0, request.result.shape, request.result.shape, 0);
}

// ---- running -------------------------------------------------------------------------------------------------------

template <class T>
void copy_run(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 1)
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  else if (dst_stride == 1 && src_stride == 0)
    std::fill_n(dst, n, *src);
  else
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

// Copies a plane whose axis a has source stride 1 and whose axis b has destination stride 1.
template <class T>
void copy_plane(T* dst, const T* src, int64_t a_size, int64_t a_dst, int64_t b_size, int64_t b_src) {
  if constexpr (sizeof(T) == 4) return loops().transpose.bytes_4(dst, a_dst, src, b_src, b_size, a_size);
  if constexpr (sizeof(T) == 2) return loops().transpose.bytes_2(dst, a_dst, src, b_src, b_size, a_size);
  // In squares, so that both sides use whole cache lines.
  constexpr int64_t kSide = 64 / sizeof(T) < 16 ? 16 : 64 / sizeof(T);
  for (int64_t a = 0; a < a_size; a += kSide)
    for (int64_t b = 0; b < b_size; b += kSide)
      for (int64_t i = a; i < std::min(a + kSide, a_size); ++i)
        copy_run(dst + i * a_dst + b, 1, src + i + b * b_src, b_src, std::min(kSide, b_size - b));
}

// Copies positions [begin, end) of `axis`, and all positions of the axes after it by recursion.
template <class T>
void copy_box(const Box& box, T* dst, const T* src, size_t axis, int64_t begin, int64_t end) {
  const int64_t dst_stride = box.dst_strides[axis], src_stride = box.src_strides[axis];
  const auto last = static_cast<size_t>(box.rank - 1);
  if (axis == last)
    return copy_run(dst + begin * dst_stride, dst_stride, src + begin * src_stride, src_stride, end - begin);
  if (axis + 1 == last && src_stride == 1 && box.dst_strides[last] == 1)
    return copy_plane(dst + begin * dst_stride, src + begin, end - begin, dst_stride, box.dims[last],
                      box.src_strides[last]);
  for (int64_t i = begin; i < end; ++i)
    copy_box(box, dst + i * dst_stride, src + i * src_stride, axis + 1, 0, box.dims[axis + 1]);
}

template <class T>
void copy_part(const Box& box, const KernelArguments& arguments, int64_t begin, int64_t end) {
  copy_box(box, result<T>(arguments) + box.dst_offset, operand<T>(arguments, box.operand) + box.src_offset, 0, begin,
           end);
}

void run_copies(const Copies& copies, const KernelArguments& arguments) {
  std::fill_n(arguments.results[0], copies.clear_bytes, std::byte{0});
  for (const Box& box : copies.boxes) {
    const bool in_runs = box.src_strides[static_cast<size_t>(box.rank - 1)] == 1;
    const double work_ns =
        static_cast<double>(box.elements()) * (in_runs ? 0.05 * static_cast<double>(copies.element_bytes) : 1.0);
    const int64_t chunks = chunk_count(work_ns, box.dims[0]);
    arguments.pool.parallel_for(chunks, [&](int64_t chunk) {
      const IndexRange<int64_t> range = part_of(box.dims[0], chunk, chunks);
      switch (copies.element_bytes) {
        case 1: return copy_part<uint8_t>(box, arguments, range.begin, range.end);
        case 2: return copy_part<uint16_t>(box, arguments, range.begin, range.end);
        case 4: return copy_part<uint32_t>(box, arguments, range.begin, range.end);
        default: return copy_part<uint64_t>(box, arguments, range.begin, range.end);
      }
    });
  }
}

// ---- kernels -------------------------------------------------------------------------------------------------------

Kernel make_copies(const KernelRequest& request, size_t clear_bytes, std::span<const Box> boxes) {
  Copies copies{.element_bytes = size_of(request.result.dtype), .clear_bytes = clear_bytes, .boxes = {}};
  for (const Box& box : boxes)
    if (box.elements() > 0) copies.boxes.push_back(with_planes(collapsed(box)));
  return make_kernel<run_copies>(fmt::format("copy.{}", name_of(request.op)), std::move(copies));
}

template <Box (*box_of)(const KernelRequest&)>
Kernel prepare_copy(const KernelRequest& request) {
  const Box box = box_of(request);
  return make_copies(request, 0, {&box, 1});
}

Kernel prepare_pad(const KernelRequest& request) {
  const Box box = pad_box(request);
  return make_copies(request, request.result.bytes(), {&box, 1});
}

Kernel prepare_concat(const KernelRequest& request) {
  const int axis = static_cast<int>(request.attrs[0]);
  std::vector<Box> boxes;
  int64_t start = 0;
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const int64_t offset = start * request.result.shape.strides()[static_cast<size_t>(axis)];
    boxes.push_back(whole_operand(k, request.operands[k].shape, request.result.shape, offset));
    start += request.operands[k].shape[axis];
  }
  return make_copies(request, 0, boxes);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

void reshape_loop(const Call&, Operands in, Tensor& out) {
  out.values = in[0].values;
}

void permute_loop(const Call& call, Operands in, Tensor& out) {
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < out.shape().rank(); ++i)
      at[static_cast<size_t>(call.attr(static_cast<size_t>(i)))] = index[static_cast<size_t>(i)];
    out[flat] = in[0][flat_index(in[0].shape(), at)];
  });
}

void expand_loop(const Call&, Operands in, Tensor& out) {
  const Shape& shape = in[0].shape();
  const int lead = out.shape().rank() - shape.rank();
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < shape.rank(); ++i)
      at[static_cast<size_t>(i)] = shape[i] == 1 ? 0 : index[static_cast<size_t>(i + lead)];
    out[flat] = in[0][flat_index(shape, at)];
  });
}

void slice_loop(const Call& call, Operands in, Tensor& out) {
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (size_t i = 0; i < static_cast<size_t>(out.shape().rank()); ++i)
      at[i] = call.attr(3 * i) + index[i] * call.attr(3 * i + 2);
    out[flat] = in[0][flat_index(in[0].shape(), at)];
  });
}

void pad_loop(const Call& call, Operands in, Tensor& out) {
  std::fill(out.values.begin(), out.values.end(), 0);
  for_each(in[0].shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (size_t i = 0; i < static_cast<size_t>(out.shape().rank()); ++i) at[i] = index[i] + call.attr(2 * i);
    out[flat_index(out.shape(), at)] = in[0][flat];
  });
}

void concat_loop(const Call& call, Operands in, Tensor& out) {
  const auto axis = static_cast<size_t>(call.attr(0));
  int64_t start = 0;
  for (const Tensor& part : in) {
    for_each(part.shape(), [&](int64_t flat, Index index) {
      index[axis] += start;
      out[flat_index(out.shape(), index)] = part[flat];
    });
    start += part.shape()[static_cast<int>(axis)];
  }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kReshape = {.reference = reference::reshape_loop, .prepare = prepare_copy<whole_box>};
constexpr OpKernels op_kernels::kDetach = {.reference = reference::reshape_loop, .prepare = prepare_copy<whole_box>};
constexpr OpKernels op_kernels::kBarrier = {.reference = reference::reshape_loop, .prepare = prepare_copy<whole_box>};
constexpr OpKernels op_kernels::kPermute = {.reference = reference::permute_loop, .prepare = prepare_copy<permute_box>};
constexpr OpKernels op_kernels::kExpand = {.reference = reference::expand_loop, .prepare = prepare_copy<expand_box>};
constexpr OpKernels op_kernels::kSlice = {.reference = reference::slice_loop, .prepare = prepare_copy<slice_box>};
constexpr OpKernels op_kernels::kPad = {.reference = reference::pad_loop, .prepare = prepare_pad};
constexpr OpKernels op_kernels::kConcat = {.reference = reference::concat_loop, .prepare = prepare_concat};

}  // namespace runner::backends
