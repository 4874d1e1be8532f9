#include "store/encoded_points.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/store/encode_points.h"
#include "tests/store/sample_values.h"

namespace runner::store {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min(), kLargest = std::numeric_limits<int64_t>::max();

void expect_same(const std::vector<Point>& wanted, const std::vector<Point>& got) {
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(wanted[i].step, got[i].step) << i;
    EXPECT_EQ(wanted[i].time_ms, got[i].time_ms) << i;
    EXPECT_EQ(std::bit_cast<uint64_t>(wanted[i].value), std::bit_cast<uint64_t>(got[i].value)) << i;
  }
}

void expect_round_trip(const std::vector<Point>& points) {
  const auto decoded = decode_points(encode_points(points));
  ASSERT_TRUE(decoded);
  expect_same(points, *decoded);
}

// A training loss that falls, with noise. `f32`: values are computed in f32.
std::vector<Point> noisy_loss(size_t count, bool f32) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i) {
    const double loss = 2.3 * std::exp(-static_cast<double>(i) / 300) + 0.1 + noise(random);
    points.push_back({static_cast<int64_t>(10 * (i + 1)),
                      1'700'000'000'000 + static_cast<int64_t>(37 * i + random() % 5),
                      f32 ? static_cast<double>(static_cast<float>(loss)) : loss});
  }
  return points;
}

TEST(EncodedPoints, RoundTripIsBitExact) {
  expect_round_trip({{1, 1'700'000'000'000, 0.5}});
  expect_round_trip({{0, 0, 0.0}, {0, 0, -0.0}, {0, 0, 0.0}});
  expect_round_trip({{1, 5, kNan}, {2, 5, -kNan}, {3, 4, kInf}, {4, 3, -kInf}, {5, 2, 5e-324}});
  expect_round_trip(
      {{7, 1, std::bit_cast<double>(0x7ff0000000000123)}, {8, 1, std::bit_cast<double>(uint64_t{0xfff8dead} << 32)}});
  expect_round_trip({{kSmallest, kLargest, 1}, {kLargest, kSmallest, 2}, {0, 0, 3}, {kSmallest, -1, 4}});
  expect_round_trip(noisy_loss(kEncodedPoints, true));
  expect_round_trip(noisy_loss(kEncodedPoints, false));
}

TEST(EncodedPoints, RoundTripOfRandomPoints) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Point> points(1 + random() % kEncodedPoints);
    // The number of varying bits differs between trials.
    const int step_bits = random() % 64, value_bits = random() % 64;
    int64_t step = 0;
    for (Point& point : points) {
      step = static_cast<int64_t>(static_cast<uint64_t>(step) + (random() >> step_bits));
      point = {step, static_cast<int64_t>(random() >> step_bits), std::bit_cast<double>(random() << value_bits)};
    }
    expect_round_trip(points);
  }
}

TEST(EncodedPoints, RawValuesRoundTrip) {
  std::mt19937_64 random(3);
  std::vector<Point> points(512);
  for (Point& point : points) point = {1, 1, std::bit_cast<double>(random())};
  EXPECT_EQ(encode_points(points)[0], kRawValues);
  expect_round_trip(points);
}

TEST(EncodedPoints, DetectsEveryChangedByte) {
  const auto bytes = encode_points(noisy_loss(100, true));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      auto damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(flip);
      EXPECT_FALSE(decode_points(damaged)) << i;
    }
  }
}

TEST(EncodedPoints, DetectsEveryTruncation) {
  const auto bytes = encode_points(noisy_loss(100, true));
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_points(std::span(bytes).first(size))) << size;
}

// Bitwise CRC-32 (IEEE 802.3), to forge a chunk with a valid checksum.
uint32_t crc32_of(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// A damaged body with a valid checksum must cause no crash, no out-of-bounds read and no endless loop.
TEST(EncodedPoints, SurvivesForgedBodies) {
  std::mt19937_64 random(4);
  const auto good = encode_points(noisy_loss(50, true));
  int accepted = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::byte> body(good.begin(), good.end() - 4);
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes)
      body[random() % body.size()] = static_cast<std::byte>(random());
    body.resize(body.size() - random() % 3);
    for (uint32_t crc = crc32_of(body), i = 0; i < 4; ++i) body.push_back(static_cast<std::byte>(crc >> 8 * i));
    if (const auto points = decode_points(body)) {
      ++accepted;
      EXPECT_LE(points->size(), kEncodedPoints);
    }
  }
  EXPECT_GT(accepted, 0);  // a changed value is still a valid point
}

}  // namespace
}  // namespace runner::store
