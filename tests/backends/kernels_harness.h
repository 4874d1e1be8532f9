// Shared by the kernel tests: tensors in aligned memory, running a prepared kernel, comparing with tolerance.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"
#include "backends/tensor/float16.h"

namespace runner::backends {

// 64-byte aligned memory followed by guard bytes: a kernel that writes out of bounds fails the test.
class TestBuffer {
 public:
  explicit TestBuffer(size_t bytes) : storage_(bytes + 2 * kAlign, std::byte{0xa5}), bytes_(bytes) {}
  std::byte* data() { return storage_.data() + shift(); }
  const std::byte* data() const { return storage_.data() + shift(); }
  bool intact() const {
    for (size_t i = 0; i < kAlign; ++i)
      if (data()[bytes_ + i] != std::byte{0xa5}) return false;
    return true;
  }

 private:
  static constexpr size_t kAlign = 64;
  size_t shift() const { return (kAlign - reinterpret_cast<uintptr_t>(storage_.data()) % kAlign) % kAlign; }
  std::vector<std::byte> storage_;
  size_t bytes_;
};

struct TestTensor {
  TensorType type;
  std::shared_ptr<TestBuffer> buffer;

  explicit TestTensor(const TensorType& t) : type(t), buffer(std::make_shared<TestBuffer>(t.bytes())) {}
  TestTensor(const TensorType& t, const std::function<double(int64_t)>& value) : TestTensor(t) {
    for (int64_t i = 0; i < t.shape.elements(); ++i) set(i, value(i));
  }
  std::byte* at(int64_t i) const { return buffer->data() + static_cast<size_t>(i) * size_of(type.dtype); }
  double operator[](int64_t i) const { return load_element(type.dtype, at(i)); }
  void set(int64_t i, double value) { store_element(type.dtype, value, at(i)); }
  // Bit-identical, except for the sign and payload of NaN, which IEEE 754 does not specify.
  bool same_bits(const TestTensor& other) const {
    if (!(type == other.type)) return false;
    for (int64_t i = 0; i < type.shape.elements(); ++i) {
      const bool same = std::memcmp(at(i), other.at(i), size_of(type.dtype)) == 0;
      if (!same && !(std::isnan((*this)[i]) && std::isnan(other[i]))) return false;
    }
    return true;
  }
};

// Normally distributed floats, small integers, or random bools.
inline TestTensor random_tensor(const TensorType& type, uint64_t seed, double scale = 1.0) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0.0, scale);
  return {type, [&](int64_t) {
            if (type.dtype == DType::kBool) return static_cast<double>(rng() % 2);
            return is_int(type.dtype) ? static_cast<double>(rng() % 41) - 20 : normal(rng);
          }};
}

// Shared pools of 1 to 4 threads.
inline WorkerPool& pool_of(int threads) {
  static WorkerPool pools[] = {WorkerPool(1), WorkerPool(2), WorkerPool(3), WorkerPool(4)};
  return pools[threads - 1];
}

inline std::vector<TestTensor> run_kernel(const Kernel& kernel, std::span<const TestTensor> operands,
                                          std::span<const TensorType> results, int threads = 1) {
  std::vector<std::byte*> in, out;
  for (const TestTensor& operand : operands) in.push_back(operand.buffer->data());
  std::vector<TestTensor> tensors;
  for (const TensorType& type : results) tensors.emplace_back(type);
  for (TestTensor& tensor : tensors) out.push_back(tensor.buffer->data());
  TestBuffer scratch(kernel.scratch_bytes);
  kernel.run(kernel.params.get(),
             {.operands = in, .results = out, .scratch = scratch.data(), .pool = pool_of(threads)});
  EXPECT_TRUE(scratch.intact()) << kernel.name << " writes beyond its scratch";
  for (const TestTensor& tensor : tensors)
    EXPECT_TRUE(tensor.buffer->intact()) << kernel.name << " writes past the end of its result";
  return tensors;
}

// Distance between neighbouring numbers of a dtype around x.
inline double spacing(DType dtype, double x) {
  const auto [digits, least] = [&]() -> std::pair<int, int> {
    switch (dtype) {
      case DType::kF32: return {24, -149};
      case DType::kF64: return {53, -1074};
      case DType::kBf16: return {8, -133};
      case DType::kF16: return {11, -24};
      default: return {63, 0};
    }
  }();
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - digits, least));
}

// Every element is within `ulps` units in the last place of the expected value, or within `absolute`; NaN equals NaN.
inline void expect_close(const TestTensor& got, const TestTensor& want, double ulps, double absolute,
                         const std::string& what) {
  ASSERT_EQ(got.type, want.type) << what;
  for (int64_t i = 0; i < got.type.shape.elements(); ++i) {
    const double g = got[i], w = want[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    ASSERT_LE(std::fabs(g - w), std::max(ulps * spacing(got.type.dtype, w), absolute))
        << what << ": element " << i << " is " << g << ", expected " << w;
  }
}

// Runs a test with every instruction set of this machine; restores the current one afterwards.
class EveryIsa {
 public:
  EveryIsa() : before_(isa_in_use()) {}
  ~EveryIsa() { use_isa(before_); }
  template <class Body>
  void run(const Body& body) {
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (loops_of(isa) == nullptr) continue;
      use_isa(isa);
      body(isa);
    }
    use_isa(before_);
  }

 private:
  Isa before_;
};

}  // namespace runner::backends
