// Pooling to a given size, and interpolation: compositions of other ops along one spatial axis after the other.
#include <algorithm>
#include <limits>

#include "backends/ir/ops/builder.h"

namespace runner::backends::ops {
namespace {

void check_sizes(std::string_view op, Value x, std::span<const int64_t> sizes) {
  check_input(is_float(x.dtype()) && x.shape().rank() == 2 + std::ssize(sizes), x,
              "{}: expected floats with {} spatial axes, got {}", op, sizes.size(), x.type());
  for (size_t i = 0; i < sizes.size(); ++i)
    check_input(sizes[i] > 0 && x.shape()[static_cast<int>(2 + i)] > 0, x,
                "{}: cannot make {} elements of axis {} of {}", op, sizes[i], 2 + i, x.type());
}

// ---- axes ----------------------------------------------------------------------------------------------------------

// Elements `index` (size) i64 of an axis.
Value take(Value x, int axis, Value index) {
  const int64_t size = index.shape()[0];
  Shape along;
  std::array<int64_t, Shape::kMaxRank> sizes{};
  std::fill_n(sizes.begin(), x.shape().rank(), 1);
  sizes[static_cast<size_t>(axis)] = size;
  along = Shape(std::span(sizes).first(static_cast<size_t>(x.shape().rank())));
  return gather(x, axis, expand(reshape(index, along), x.shape().with(axis, size)));
}

// v with `count` axes of one element at its end, so that it varies along an earlier axis of a tensor.
Value with_last_axes(Value v, int count) {
  for (int i = 0; i < count; ++i) v = unsqueeze(v, v.shape().rank());
  return v;
}

// ---- pooling -------------------------------------------------------------------------------------------------------

// Window i of `size` covers elements [i n / size, (i + 1) n / size) of n, rounded outwards: windows may overlap.
IndexRange<int64_t> covered(int64_t i, int64_t n, int64_t size) {
  return {i * n / size, ceil_div((i + 1) * n, size)};
}

// ⌊i · n / size + rest / size⌋ for i in [0, size), as (size, 1) i64. The quotient in f64 is exact where it is whole.
Value bounds(Program& program, int64_t n, int64_t size, int64_t rest) {
  const Value i = cast(arange(program, size), DType::kF64);
  const Value bound = div(add(mul(i, static_cast<double>(n)), static_cast<double>(rest)), static_cast<double>(size));
  return unsqueeze(cast(bound, DType::kI64), 1);
}

// The windows of one axis, all as long as the longest.
struct Windows {
  int64_t size, longest;
  Value elements;  // (size, longest) i64: positions on the axis; a shorter window repeats its last
  Value repeats;   // (size, longest) bool
  Value counts;    // (size) i64: elements that are not repeated
};

Windows covering_windows(Program& program, int64_t n, int64_t size) {
  int64_t longest = 0;
  for (int64_t i = 0; i < size; ++i) longest = std::max(longest, covered(i, n, size).size());
  const Value begin = bounds(program, n, size, 0), end = bounds(program, n, size, n + size - 1);
  const Value at = add(begin, arange(program, longest)), last = sub(end, 1.0);
  return {.size = size,
          .longest = longest,
          .elements = minimum(at, last),
          .repeats = gt(at, last),
          .counts = reshape(sub(end, begin), Shape{size})};
}

// The elements of the windows of an axis, window after window.
Value take_windows(Value x, int axis, const Windows& windows) {
  return take(x, axis, reshape(windows.elements, Shape{windows.size * windows.longest}));
}

// Which of these are repeated; broadcasts over a tensor of `rank` axes.
Value repeats_along(int axis, int rank, const Windows& windows) {
  return with_last_axes(reshape(windows.repeats, Shape{windows.size * windows.longest}), rank - axis - 1);
}

Value without(Value elements, Value repeats, double filler) {
  return where(repeats, full_like(elements, filler), elements);
}

Value mean_of_windows(Value x, int axis, int64_t size) {
  const Windows windows = covering_windows(*x.program, x.shape()[axis], size);
  const Shape shape = x.shape();
  std::vector<int64_t> split(shape.dims().begin(), shape.dims().end());
  split[static_cast<size_t>(axis)] = windows.longest;
  split.insert(split.begin() + axis, size);
  const int64_t axes[] = {axis + 1};
  const Value counted = without(take_windows(x, axis, windows), repeats_along(axis, shape.rank(), windows), 0);
  const Value sums = sum(reshape(counted, Shape(split)), axes);
  return div(sums, with_last_axes(cast(windows.counts, x.dtype()), shape.rank() - axis - 1));
}

// Equal windows if the sizes divide those of x; empty otherwise.
std::vector<Pooling> equal_windows(Value x, std::span<const int64_t> sizes) {
  std::vector<Pooling> pools;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t n = x.shape()[static_cast<int>(2 + i)];
    if (n % sizes[i] != 0) return {};
    pools.push_back({.size = n / sizes[i], .stride = n / sizes[i]});
  }
  return pools;
}

// ---- interpolation -------------------------------------------------------------------------------------------------

// Elements of an axis of n for each of the `size` elements that are made of it, in f32 as in PyTorch: its rounding
// decides which element is the nearest. `factor`: of UpsampleOptions, or 0 for size / n.
float nearest_step(int64_t n, int64_t size, double factor) {
  return factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(n) / static_cast<float>(size);
}

// Whether element i of `size` is element i n / size of n for all i, where `size` is a multiple of n.
bool repeats_each(int64_t n, int64_t size, float step) {
  if (size % n != 0) return false;
  for (int64_t i = 0; i < size; ++i)
    if (static_cast<int64_t>(static_cast<float>(i) * step) != i / (size / n)) return false;
  return true;
}

Value nearest_axis(Value x, int axis, int64_t size, double factor) {
  const int64_t n = x.shape()[axis];
  const float step = nearest_step(n, size, factor);
  if (!repeats_each(n, size, step)) {
    const Value at = mul(cast(arange(*x.program, size), DType::kF32), static_cast<double>(step));
    const Value index = cast(at, DType::kI64);
    return take(x, axis, minimum(index, full_like(index, static_cast<double>(n - 1))));
  }
  const Shape shape = x.shape();
  std::vector<int64_t> repeated(shape.dims().begin(), shape.dims().end());
  repeated.insert(repeated.begin() + axis + 1, size / n);
  return reshape(expand(unsqueeze(x, axis + 1), Shape(repeated)), shape.with(axis, size));
}

// (i + shift) · from / to for i in [0, size), in f64: exact where it is a whole number.
Value positions(Value x, int64_t size, double shift, double from, double to) {
  const Value i = cast(arange(*x.program, size), DType::kF64);
  return div(mul(add(i, shift), from), to);
}

Value linear_axis(Value x, int axis, int64_t size, bool align_corners, double factor) {
  const int64_t n = x.shape()[axis];
  Value at;  // between elements of x
  if (align_corners)
    at = positions(x, size, 0, static_cast<double>(n - 1), static_cast<double>(std::max<int64_t>(size - 1, 1)));
  else if (factor > 0)
    at = sub(positions(x, size, 0.5, 1, factor), 0.5);
  else
    at = sub(positions(x, size, 0.5, static_cast<double>(n), static_cast<double>(size)), 0.5);
  at = clamp(at, 0.0, static_cast<double>(n - 1));
  const Value low = cast(at, DType::kI64);
  const Value high = minimum(add(low, 1.0), full_like(low, static_cast<double>(n - 1)));
  const Value part = with_last_axes(cast(sub(at, cast(low, DType::kF64)), x.dtype()), x.shape().rank() - axis - 1);
  const Value from_low = take(x, axis, low), from_high = take(x, axis, high);
  return add(from_low, mul(sub(from_high, from_low), part));
}

}  // namespace

// 16-bit floats are summed in f32 and rounded once.
Value adaptive_avg_pool(Value x, std::span<const int64_t> sizes) {
  check_sizes("adaptive_avg_pool", x, sizes);
  if (const std::vector<Pooling> pools = equal_windows(x, sizes); !pools.empty()) return avg_pool(x, pools);
  Value mean = summable(x);
  for (size_t i = 0; i < sizes.size(); ++i) mean = mean_of_windows(mean, static_cast<int>(2 + i), sizes[i]);
  return cast(mean, x.dtype());
}

Value adaptive_max_pool(Value x, std::span<const int64_t> sizes) {
  check_sizes("adaptive_max_pool", x, sizes);
  if (const std::vector<Pooling> pools = equal_windows(x, sizes); !pools.empty()) return max_pool(x, pools);
  std::vector<Pooling> pools;
  Value repeats;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(2 + i);
    const Windows windows = covering_windows(*x.program, x.shape()[axis], sizes[i]);
    x = take_windows(x, axis, windows);
    const Value along = repeats_along(axis, x.shape().rank(), windows);
    repeats = repeats ? binary(Op::kOr, repeats, along) : along;
    pools.push_back({.size = windows.longest, .stride = windows.longest});
  }
  return max_pool(without(x, repeats, -std::numeric_limits<double>::infinity()), pools);
}

// 16-bit floats are interpolated in f32 and rounded once.
Value upsample(Value x, std::span<const int64_t> sizes, const UpsampleOptions& options) {
  check_sizes("upsample", x, sizes);
  RUN_ASSERT(options.factors.empty() || options.factors.size() == sizes.size());
  const DType dtype = x.dtype();
  if (options.linear && size_of(dtype) == 2) x = cast(x, DType::kF32);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(2 + i);
    const double factor = options.factors.empty() ? 0 : options.factors[i];
    x = options.linear ? linear_axis(x, axis, sizes[i], options.align_corners, factor)
                       : nearest_axis(x, axis, sizes[i], factor);
  }
  return cast(x, dtype);
}

}  // namespace runner::backends::ops
