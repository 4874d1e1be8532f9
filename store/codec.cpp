#include "store/codec.h"

#include <bit>

#include <zlib.h>

#include "schema/error.h"

namespace runner::store {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kPackedValues{1}, kRawValues{2};  // first byte of a chunk
constexpr size_t kCrcBytes = 4;

// Small magnitudes of both signs become small numbers: 0, -1, 1, -2 → 0, 1, 2, 3.
uint64_t zigzag(uint64_t x) {
  return x << 1 ^ (x >> 63 ? ~uint64_t{0} : 0);
}
uint64_t unzigzag(uint64_t x) {
  return x >> 1 ^ (x & 1 ? ~uint64_t{0} : 0);
}

uint32_t crc(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The low `count` bytes of x, lowest first.
void put(Bytes& out, uint64_t x, size_t count) {
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(x >> 8 * i));
}

// Seven bits a byte, lowest first; the high bit says that more follow.
void put_varint(Bytes& out, uint64_t x) {
  for (; x >= 0x80; x >>= 7) out.push_back(static_cast<std::byte>(x | 0x80));
  out.push_back(static_cast<std::byte>(x));
}

// Differences wrap: any two numbers have one.
uint64_t difference(int64_t later, int64_t earlier) {
  return static_cast<uint64_t>(later) - static_cast<uint64_t>(earlier);
}

void put_steps(Bytes& out, std::span<const Point> points) {
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

void put_times(Bytes& out, std::span<const Point> points) {
  int64_t before = 0;
  for (const Point& point : points) {
    put_varint(out, zigzag(difference(point.time_ms, before)));
    before = point.time_ms;
  }
}

// A byte with the count of significant bytes (low half) and of zero bytes below them (high half), then those bytes.
void put_packed_values(Bytes& out, std::span<const Point> points) {
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

void put_raw_values(Bytes& out, std::span<const Point> points) {
  for (const Point& point : points) put(out, std::bit_cast<uint64_t>(point.value), 8);
}

// Reads from the front; after running out everything reads as 0 and `failed` is set.
struct Reader {
  std::span<const std::byte> left;
  bool failed = false;

  uint64_t get(size_t count) {
    if (count > left.size()) {
      failed = true;
      return 0;
    }
    uint64_t x = 0;
    for (size_t i = 0; i < count; ++i) x |= static_cast<uint64_t>(left[i]) << 8 * i;
    left = left.subspan(count);
    return x;
  }

  uint64_t get_varint() {
    uint64_t x = 0;
    for (size_t shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = get(1);
      x |= (byte & 0x7f) << shift;
      if (byte < 0x80) return x;
    }
    failed = true;
    return 0;
  }
};

void get_steps(Reader& in, std::vector<Point>& points) {
  uint64_t step = unzigzag(in.get_varint());
  points[0].step = static_cast<int64_t>(step);
  for (size_t i = 1; i < points.size() && !in.failed;) {
    const uint64_t run = in.get_varint();
    const uint64_t delta = unzigzag(in.get_varint());
    if (run == 0 || run > points.size() - i) in.failed = true;
    for (uint64_t end = in.failed ? i : i + run; i < end; ++i) {
      step += delta;
      points[i].step = static_cast<int64_t>(step);
    }
  }
}

void get_times(Reader& in, std::vector<Point>& points) {
  uint64_t time = 0;
  for (Point& point : points) {
    time += unzigzag(in.get_varint());
    point.time_ms = static_cast<int64_t>(time);
  }
}

void get_packed_values(Reader& in, std::vector<Point>& points) {
  uint64_t bits = 0;
  for (Point& point : points) {
    const uint64_t control = in.get(1);
    const uint64_t low = control >> 4, count = control & 15;
    if (low + count > 8 || low > 7) in.failed = true;
    if (in.failed) return;
    bits ^= in.get(count) << 8 * low;
    point.value = std::bit_cast<double>(bits);
  }
}

void get_raw_values(Reader& in, std::vector<Point>& points) {
  for (Point& point : points) point.value = std::bit_cast<double>(in.get(8));
}

}  // namespace

std::vector<std::byte> encode_points(std::span<const Point> points) {
  RUN_ASSERT(!points.empty() && points.size() <= kChunkPoints);
  Bytes values;
  values.reserve(9 * points.size());
  put_packed_values(values, points);
  const bool raw = values.size() > 8 * points.size();

  Bytes out;
  out.reserve(16 + 2 * points.size() + values.size());
  out.push_back(raw ? kRawValues : kPackedValues);
  put_varint(out, points.size());
  put_steps(out, points);
  put_times(out, points);
  raw ? put_raw_values(out, points) : static_cast<void>(out.insert(out.end(), values.begin(), values.end()));
  put(out, crc(out), kCrcBytes);
  return out;
}

std::optional<std::vector<Point>> decode_points(std::span<const std::byte> bytes) {
  if (bytes.size() < kCrcBytes) return std::nullopt;
  const auto body = bytes.first(bytes.size() - kCrcBytes);
  Reader stored{bytes.last(kCrcBytes)};
  if (stored.get(kCrcBytes) != crc(body)) return std::nullopt;

  Reader in{body};
  const auto kind = static_cast<std::byte>(in.get(1));
  const uint64_t count = in.get_varint();
  if (in.failed || count == 0 || count > kChunkPoints || (kind != kPackedValues && kind != kRawValues))
    return std::nullopt;
  std::vector<Point> points(count);
  get_steps(in, points);
  get_times(in, points);
  kind == kRawValues ? get_raw_values(in, points) : get_packed_values(in, points);
  if (in.failed || !in.left.empty()) return std::nullopt;
  return points;
}

}  // namespace runner::store
