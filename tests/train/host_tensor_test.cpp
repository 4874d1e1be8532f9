// Tensors that ranks exchange by value, against plain loops.
#include "runner/train/step/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/tensor/float16.h"
#include "schema/base/error.h"
#include "tests/support/bytes.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::Shape;

// What each rank sends, by element. The bytes are unaligned.
class Sent {
 public:
  template <class T>
  Sent(DType dtype, const std::vector<std::vector<T>>& by_rank) {
    for (const std::vector<T>& values : by_rank) {
      HostTensor tensor{{dtype, Shape{std::ssize(values)}}, {}};
      tensor.bytes.resize(values.size() * sizeof(T));
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
      std::string& text = texts_.emplace_back("x");
      tensor.pack_into(text);
      all_.push_back(SentTensor::of_packed(std::string_view(text).substr(1)));
    }
  }
  const std::vector<SentTensor>& all() const { return all_; }

 private:
  std::list<std::string> texts_;  // referred to by all_
  std::vector<SentTensor> all_;
};

template <class T>
std::vector<T> fold_of(DType dtype, const std::vector<std::vector<T>>& by_rank, Fold fold) {
  const HostTensor result = folded(Sent(dtype, by_rank).all(), fold, "acc:reduce");
  EXPECT_EQ(result.type.dtype, dtype);
  return support::numbers_of<T>(result.bytes);
}

TEST(HostTensor, FoldsIntegersExactly) {
  constexpr int64_t kBig = int64_t{1} << 53, kMax = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<int64_t>> ranks{{kBig, kMax, -1}, {1, -kMax, -2}, {2, kMax - 1, kMax}};
  EXPECT_EQ(fold_of(DType::kI64, ranks, Fold::kSum), (std::vector<int64_t>{kBig + 3, kMax - 1, kMax - 3}));
  EXPECT_EQ(fold_of(DType::kI64, ranks, Fold::kMax), (std::vector<int64_t>{kBig, kMax, kMax}));
  const std::vector<std::vector<int32_t>> small{{2'000'000'000}, {2'000'000'000}};
  EXPECT_EQ(fold_of(DType::kI32, small, Fold::kSum), std::vector<int32_t>{-294'967'296});  // wraps around
}

// 1e8 + 1 is 1e8 in f32, so the sum from the right differs.
TEST(HostTensor, FoldsInRankOrder) {
  const std::vector<std::vector<float>> ranks{{1e8f, 3}, {1, 4}, {1, 5}, {-1e8f, 6}};
  EXPECT_EQ(fold_of(DType::kF32, ranks, Fold::kSum), (std::vector<float>{0, 18}));
  EXPECT_EQ(fold_of(DType::kF32, ranks, Fold::kMean), (std::vector<float>{0, 4.5}));
  EXPECT_EQ(fold_of(DType::kF32, ranks, Fold::kMax), (std::vector<float>{1e8f, 6}));
  const std::vector<std::vector<double>> doubles{{0x1p53}, {1}, {1}};
  EXPECT_EQ(fold_of(DType::kF64, doubles, Fold::kSum), std::vector<double>{0x1p53});
}

// 2048 + 1 is 2048 in f16.
TEST(HostTensor, RoundsHalvesAtEachStep) {
  const auto half = [](double value) {
    uint16_t bits = 0;
    backends::store_element(DType::kF16, value, &bits);
    return bits;
  };
  const std::vector<std::vector<uint16_t>> ranks{{half(2048)}, {half(1)}, {half(1)}};
  EXPECT_EQ(fold_of(DType::kF16, ranks, Fold::kSum), std::vector<uint16_t>{half(2048)});
  EXPECT_EQ(fold_of(DType::kF16, ranks, Fold::kMax), std::vector<uint16_t>{half(2048)});
}

TEST(HostTensor, MaxReturnsNaN) {
  const float nan = std::nanf("");
  const std::vector<std::vector<float>> ranks{{1, nan, 1}, {nan, 2, 2}, {3, 3, 3}};
  for (const Fold fold : {Fold::kSum, Fold::kMean, Fold::kMax}) {
    const std::vector<float> values = fold_of(DType::kF32, ranks, fold);
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]) && !std::isnan(values[2]));
  }
}

TEST(HostTensor, RejectsTypesThatDoNotMatch) {
  const std::vector<std::vector<float>> ranks{{1, 2}, {1}};
  const Sent sent(DType::kF32, ranks);
  try {
    folded(sent.all(), Fold::kSum, "acc:reduce");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "acc:reduce: expected tensors of equal type, got rank 0 has (2) f32, rank 1 has (1) f32");
  }
}

}  // namespace
}  // namespace runner::train
