// Pooling to a given size, and interpolation: compositions of other ops along one spatial axis after the other.
#include <algorithm>

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

// ---- pooling -------------------------------------------------------------------------------------------------------

// Element i of `size` covers elements [i n / size, (i + 1) n / size) of n, rounded outwards: these may overlap.
IndexRange<int64_t> covered(int64_t i, int64_t n, int64_t size) {
  return {i * n / size, ceil_div((i + 1) * n, size)};
}

template <class Reduce>
Value pool_axis(Value x, int64_t axis, int64_t size, const Reduce& reduce) {
  const int64_t axes[] = {axis};
  std::vector<Value> parts;
  for (int64_t i = 0; i < size; ++i) {
    const auto [begin, end] = covered(i, x.shape()[static_cast<int>(axis)], size);
    parts.push_back(reduce(slice(x, axis, begin, end), axes, true));
  }
  return concat(parts, axis);
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

template <class Pool, class Reduce>
Value adaptive_pool(std::string_view op, Value x, std::span<const int64_t> sizes, const Pool& pool,
                    const Reduce& reduce) {
  check_sizes(op, x, sizes);
  if (const std::vector<Pooling> pools = equal_windows(x, sizes); !pools.empty()) return pool(x, pools);
  for (size_t i = 0; i < sizes.size(); ++i) x = pool_axis(x, static_cast<int64_t>(2 + i), sizes[i], reduce);
  return x;
}

// ---- interpolation -------------------------------------------------------------------------------------------------

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
  Value part = cast(sub(at, cast(low, DType::kF64)), x.dtype());
  for (int after = axis + 1; after < x.shape().rank(); ++after) part = unsqueeze(part, part.shape().rank());
  const Value from_low = take(x, axis, low), from_high = take(x, axis, high);
  return add(from_low, mul(sub(from_high, from_low), part));
}

}  // namespace

Value adaptive_avg_pool(Value x, std::span<const int64_t> sizes) {
  return adaptive_pool(
      "adaptive_avg_pool", x, sizes, [](Value v, std::span<const Pooling> pools) { return avg_pool(v, pools); },
      [](Value v, std::span<const int64_t> axes, bool keep) { return mean(v, axes, keep); });
}

Value adaptive_max_pool(Value x, std::span<const int64_t> sizes) {
  return adaptive_pool(
      "adaptive_max_pool", x, sizes, [](Value v, std::span<const Pooling> pools) { return max_pool(v, pools); },
      [](Value v, std::span<const int64_t> axes, bool keep) { return reduce_max(v, axes, keep); });
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
