// Shape of a tensor: at most 8 dimensions, stored inline; row-major layout.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>

#include "backends/tensor/dtype.h"
#include "schema/base/parts.h"

namespace runner::backends {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  // Throws Error(kRun) for more than 8 dimensions, a negative dimension, or 2^60 or more elements (so that bytes() fits
  // into int64_t).
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t back() const { return dims_[static_cast<size_t>(rank_ - 1)]; }
  std::span<const int64_t> dims() const& { return {dims_.data(), static_cast<size_t>(rank_)}; }
  std::span<const int64_t> dims() const&& = delete;  // the span would outlive the shape
  int64_t elements() const { return elements_; }

  // Row-major strides in elements.
  std::array<int64_t, kMaxRank> strides() const;
  // Normalises an axis; negative axes count from the end. Throws Error(kRun) with `what` if it is out of range.
  int axis(int64_t axis, const char* what) const;
  Shape with(int axis, int64_t size) const;
  Shape without(int axis) const;

  bool operator==(const Shape& other) const { return rank_ == other.rank_ && dims_ == other.dims_; }
  // Example: "(64, 784)"; "()" for a scalar, and "(3)" rather than "(3,)" for one dimension.
  std::string to_string() const;

 private:
  friend class runner::PartsAccess;

  static auto parts(auto& self) { return std::tie(self.dims_, self.rank_, self.elements_); }

  std::array<int64_t, kMaxRank> dims_{};  // zero beyond the rank
  int rank_ = 0;
  int64_t elements_ = 1;
};

// Shape that two shapes broadcast to, by NumPy's rules. Throws Error(kRun) with both shapes if they do not.
Shape broadcast(const Shape& a, const Shape& b);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  static auto parts(auto& self) { return std::tie(self.dtype, self.shape); }
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
  // Example: "(64, 784) f32".
  std::string to_string() const;
};

}  // namespace runner::backends
