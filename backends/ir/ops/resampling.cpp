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

// i · from / to for i in [0, size), in f64: exact where it is a whole number.
Value positions(Value x, int64_t size, int64_t from, int64_t to) {
  const Value i = cast(arange(*x.program, size), DType::kF64);
  return div(mul(i, static_cast<double>(from)), static_cast<double>(std::max<int64_t>(to, 1)));
}

Value nearest_axis(Value x, int axis, int64_t size) {
  const int64_t n = x.shape()[axis];
  if (size % n != 0) return take(x, axis, cast(positions(x, size, n, size), DType::kI64));
  const Shape shape = x.shape();
  std::vector<int64_t> repeated(shape.dims().begin(), shape.dims().end());
  repeated.insert(repeated.begin() + axis + 1, size / n);
  return reshape(expand(unsqueeze(x, axis + 1), Shape(repeated)), shape.with(axis, size));
}

Value linear_axis(Value x, int axis, int64_t size, bool align_corners) {
  const int64_t n = x.shape()[axis];
  Value at;  // between elements of x
  if (align_corners)
    at = positions(x, size, n - 1, size - 1);
  else
    at = sub(add(positions(x, size, n, size), 0.5 * static_cast<double>(n) / static_cast<double>(size)), 0.5);
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

Value upsample(Value x, std::span<const int64_t> sizes, const UpsampleOptions& options) {
  check_sizes("upsample", x, sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(2 + i);
    x = options.linear ? linear_axis(x, axis, sizes[i], options.align_corners) : nearest_axis(x, axis, sizes[i]);
  }
  return x;
}

}  // namespace runner::backends::ops
