#include "store/encoded_points.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <zlib.h>

#include "store/metric_tables.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

// Inverse of zigzag().
uint64_t unzigzag(uint64_t x) {
  return x >> 1 ^ (x & 1 ? ~uint64_t{0} : 0);
}

// Reads from the front of `left`. Reading past the end returns 0 and sets `failed`.
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

uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::optional<std::vector<Point>> decode_points(std::span<const std::byte> bytes) {
  if (bytes.size() < kCrcBytes) return std::nullopt;
  const auto body = bytes.first(bytes.size() - kCrcBytes);
  Reader stored{bytes.last(kCrcBytes)};
  if (stored.get(kCrcBytes) != crc_of(body)) return std::nullopt;

  Reader in{body};
  const auto kind = static_cast<std::byte>(in.get(1));
  const uint64_t count = in.get_varint();
  if (in.failed || count == 0 || count > kEncodedPoints || (kind != kPackedValues && kind != kRawValues))
    return std::nullopt;
  std::vector<Point> points(count);
  get_steps(in, points);
  get_times(in, points);
  kind == kRawValues ? get_raw_values(in, points) : get_packed_values(in, points);
  if (in.failed || !in.left.empty()) return std::nullopt;
  return points;
}

std::vector<Chunk> read_encoded_chunks(Database& database, int64_t run_id, const std::string& metric) {
  Statement rows(database,
                 "SELECT chunk.no, chunk.data FROM series JOIN main.chunk AS chunk ON chunk.series_id = series.id "
                 "WHERE series.run_id = ?1 AND series.name = ?2 ORDER BY chunk.no");
  rows.bind(run_id, metric);
  std::vector<Chunk> chunks;
  while (rows.step()) {
    auto points = decode_points(rows.bytes(1));
    if (!points) fail_damaged_chunk(database, rows.int64(0), metric);
    chunks.push_back({rows.int64(0), std::move(*points)});
  }
  return chunks;
}

void convert_encoded_points(Database& database) {
  MetricTables tables(database);
  Statement rows(database, "SELECT series_id, data FROM encoded_chunk ORDER BY series_id, no");
  int64_t series = 0, no = 0;
  while (rows.step()) {
    if (std::exchange(series, rows.int64(0)) != rows.int64(0)) no = 0;
    const auto points = decode_points(rows.bytes(1));
    if (!points) {
      tables.put_lost_chunk(series, no++);
      continue;
    }
    for (std::span<const Point> left = *points; !left.empty();) {
      const size_t count = std::min(left.size(), kChunkPoints);
      tables.put_chunk(series, no++, left.first(count));
      left = left.subspan(count);
    }
  }
  rows.reset();
  database.exec("DROP TABLE encoded_chunk");
}

}  // namespace runner::store
