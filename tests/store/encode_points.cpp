#include "tests/store/encode_points.h"

#include <bit>

#include <zlib.h>

#include "schema/base/error.h"
#include "store/encoded_points.h"

namespace runner::store {
namespace {

using ByteVector = std::vector<std::byte>;

// Zigzag encoding maps small magnitudes of both signs to small numbers: 0, -1, 1, -2 → 0, 1, 2, 3.
uint64_t zigzag(uint64_t x) {
  return x << 1 ^ (x >> 63 ? ~uint64_t{0} : 0);
}

// Appends the low `count` bytes of `x`, lowest first.
void put(ByteVector& out, uint64_t x, size_t count) {
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(x >> 8 * i));
}

// Appends a LEB128 integer: seven bits per byte, lowest first; the high bit is set if more bytes follow.
void put_varint(ByteVector& out, uint64_t x) {
  for (; x >= 0x80; x >>= 7) out.push_back(static_cast<std::byte>(x | 0x80));
  out.push_back(static_cast<std::byte>(x));
}

// Difference modulo 2^64, which is defined for any two values.
uint64_t difference(int64_t later, int64_t earlier) {
  return static_cast<uint64_t>(later) - static_cast<uint64_t>(earlier);
}

void put_steps(ByteVector& out, std::span<const Point> points) {
  put_varint(out, zigzag(static_cast<uint64_t>(points[0].step)));
  for (size_t i = 1; i < points.size();) {
    const uint64_t delta = difference(points[i].step, points[i - 1].step);
    size_t end = i + 1;
    while (end < points.size() && difference(points[end].step, points[end - 1].step) == delta) ++end;
    put_varint(out, end - i);
    put_varint(out, zigzag(delta));
    i = end;
  }
}

void put_times(ByteVector& out, std::span<const Point> points) {
  int64_t before = 0;
  for (const Point& point : points) {
    put_varint(out, zigzag(difference(point.time_ms, before)));
    before = point.time_ms;
  }
}

// Appends for each value the significant bytes of its XOR with the previous value. A control byte comes first: its low
// half counts the significant bytes, its high half the zero bytes below them.
void put_packed_values(ByteVector& out, std::span<const Point> points) {
  uint64_t before = 0;
  for (const Point& point : points) {
    const auto bits = std::bit_cast<uint64_t>(point.value);
    const uint64_t x = bits ^ before;
    before = bits;
    const size_t low = x ? static_cast<size_t>(std::countr_zero(x)) / 8 : 0;
    const size_t high = x ? static_cast<size_t>(std::countl_zero(x)) / 8 : 8;
    const size_t count = 8 - low - high;
    out.push_back(static_cast<std::byte>(low << 4 | count));
    put(out, x >> 8 * low, count);
  }
}

void put_raw_values(ByteVector& out, std::span<const Point> points) {
  for (const Point& point : points) put(out, std::bit_cast<uint64_t>(point.value), 8);
}

}  // namespace

std::vector<std::byte> encode_points(std::span<const Point> points) {
  RUN_ASSERT(!points.empty() && points.size() <= kEncodedPoints);
  ByteVector values;
  values.reserve(9 * points.size());
  put_packed_values(values, points);
  const bool raw = values.size() > 8 * points.size();

  ByteVector out;
  out.reserve(16 + 2 * points.size() + values.size());
  out.push_back(raw ? kRawValues : kPackedValues);
  put_varint(out, points.size());
  put_steps(out, points);
  put_times(out, points);
  raw ? put_raw_values(out, points) : static_cast<void>(out.insert(out.end(), values.begin(), values.end()));
  put(out, crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()), kCrcBytes);
  return out;
}

}  // namespace runner::store
