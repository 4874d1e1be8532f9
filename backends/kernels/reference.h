// Reference kernels: each op as the plain loop of its definition, for tests.
//
// Values are long double, whose 64-bit mantissa holds every i64 and f64 exactly, so a result is rounded only once, at
// the end. Reference kernels are simple rather than fast, and may allocate.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/ir/op.h"
#include "backends/ir/program.h"
#include "backends/tensor/shape.h"

namespace runner::backends::reference {

using Real = long double;
using Index = std::array<int64_t, Shape::kMaxRank>;

struct Tensor {
  TensorType type;
  std::vector<Real> values;

  const Shape& shape() const { return type.shape; }
  int64_t rows() const { return type.shape.elements() / std::max<int64_t>(1, type.shape.back()); }
  Real& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  Real operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
  int64_t integer(int64_t i) const { return static_cast<int64_t>((*this)[i]); }
};
using Operands = std::span<const Tensor>;

struct Call {
  Op op;
  std::vector<TensorType> operand_types;
  std::vector<int64_t> attrs;
  TensorType result;

  int64_t attr(size_t i) const { return attrs[i]; }
  double attr_f64(size_t i) const { return unpack_f64(attrs[i]); }
};

// Computes one element of the result of an element-wise op; missing operands are 0.
using ScalarFunction = Real (*)(Real x, Real y, Real z);

// Computes the result of a call; its values are initially zero.
using Loop = void (*)(const Call& call, Operands in, Tensor& out);

// Calls body(flat, index) for each element of a shape in row-major order.
template <class Body>
void for_each(const Shape& shape, const Body& body) {
  Index index{};
  for (int64_t flat = 0; flat < shape.elements(); ++flat) {
    body(flat, index);
    for (int axis = shape.rank(); axis-- > 0;) {
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

// Position of an element in row-major order.
int64_t flat_index(const Shape& shape, const Index& index);

// Returns an index operand after checking its range. Throws Error(kRun) with its position `at`.
int64_t checked(int64_t index, int64_t size, const char* op, int64_t at);

}  // namespace runner::backends::reference
