// Tensors in host memory: inputs of Programs in tests, and results to compare.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tensor/float16.h"
#include "backends/tensor/shape.h"

namespace runner::backends::testing {

struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  explicit HostTensor(const TensorType& t) : type(t), bytes(t.bytes()) {}
  HostTensor(const TensorType& t, const std::function<double(int64_t)>& value) : HostTensor(t) {
    for (int64_t i = 0; i < size(); ++i) set(i, value(i));
  }
  HostTensor(const TensorType& t, std::span<const double> values)
      : HostTensor(t, [values](int64_t i) { return values[static_cast<size_t>(i)]; }) {}

  int64_t size() const { return type.shape.elements(); }
  double operator[](int64_t i) const { return load_element(type.dtype, bytes.data() + offset(i)); }
  void set(int64_t i, double value) { store_element(type.dtype, value, bytes.data() + offset(i)); }
  std::vector<double> values() const {
    std::vector<double> result;
    for (int64_t i = 0; i < size(); ++i) result.push_back((*this)[i]);
    return result;
  }

  // Bit-identical, except for the sign and payload of NaN, which IEEE 754 does not specify.
  bool operator==(const HostTensor& other) const {
    if (type != other.type) return false;
    if (bytes == other.bytes) return true;
    const size_t n = size_of(type.dtype);
    for (int64_t i = 0; i < size(); ++i) {
      const bool both_nan = std::isnan((*this)[i]) && std::isnan(other[i]);
      if (!both_nan && std::memcmp(bytes.data() + offset(i), other.bytes.data() + offset(i), n) != 0) return false;
    }
    return true;
  }

 private:
  size_t offset(int64_t i) const { return static_cast<size_t>(i) * size_of(type.dtype); }
};

inline void PrintTo(const HostTensor& tensor, std::ostream* out) {
  std::vector<double> values = tensor.values();
  const bool long_one = values.size() > 32;
  if (long_one) values.resize(32);
  *out << fmt::format("{} [{}{}]", tensor.type.to_string(), fmt::join(values, ", "), long_one ? ", …" : "");
}

// Normally distributed floats, small integers, random bools.
inline HostTensor random_tensor(const TensorType& type, std::mt19937& random) {
  std::normal_distribution<double> normal;
  return HostTensor(type, [&](int64_t) {
    if (is_float(type.dtype)) return normal(random);
    return static_cast<double>(type.dtype == DType::kBool ? random() % 2 : random() % 7);
  });
}

}  // namespace runner::backends::testing
