#include "backends/tensor/shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/base/error.h"

namespace runner::backends {
namespace {

// The size of this many 8-byte elements fits into int64_t.
constexpr int64_t kMaxElements = (int64_t{1} << 60) - 1;

}  // namespace

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  RUN_CHECK(dims.size() <= kMaxRank, ErrorKind::kRun, "a tensor has at most {} dimensions, got {}", kMaxRank,
            dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (const int64_t dim : dims) {
    RUN_CHECK(dim >= 0, ErrorKind::kRun, "a dimension cannot be negative: ({})", fmt::join(dims, ", "));
    RUN_CHECK(dim == 0 || elements_ <= kMaxElements / dim, ErrorKind::kRun, "a tensor of shape ({}) is too large",
              fmt::join(dims, ", "));
    elements_ *= dim;
  }
}

std::array<int64_t, Shape::kMaxRank> Shape::strides() const {
  std::array<int64_t, kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = rank_; axis-- > 0;) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= (*this)[axis];
  }
  return strides;
}

int Shape::axis(int64_t axis, const char* what) const {
  const int64_t normal = axis < 0 ? axis + rank_ : axis;
  RUN_CHECK(normal >= 0 && normal < rank_, ErrorKind::kRun, "{}: axis {} does not exist in shape {}", what, axis,
            to_string());
  return static_cast<int>(normal);
}

Shape Shape::with(int axis, int64_t size) const {
  std::array<int64_t, kMaxRank> dims = dims_;
  dims[static_cast<size_t>(axis)] = size;
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_)));
}

Shape Shape::without(int axis) const {
  std::array<int64_t, kMaxRank> dims{};
  size_t n = 0;
  for (int i = 0; i < rank_; ++i)
    if (i != axis) dims[n++] = (*this)[i];
  return Shape(std::span<const int64_t>(dims.data(), n));
}

std::string Shape::to_string() const {
  return fmt::format("({})", fmt::join(dims(), ", "));
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    RUN_CHECK(x == y || x == 1 || y == 1, ErrorKind::kRun,
              "cannot broadcast shapes {} and {}: sizes {} and {} at axis -{}", a.to_string(), b.to_string(), x, y, i);
    dims[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank)));
}

std::string TensorType::to_string() const {
  return fmt::format("{} {}", shape.to_string(), name_of(dtype));
}

}  // namespace runner::backends
