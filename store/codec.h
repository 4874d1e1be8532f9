// Metric points and the encoding of chunks of them (docs/store.md, "Chunks").
//
// Encoding is lossless, including NaN payloads. The decoder accepts any bytes: it returns the points, or reports that
// the bytes are damaged. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace runner::store {

struct Point {
  int64_t step = 0;
  int64_t time_ms = 0;  // Unix time
  double value = 0;
};

// Position of a checkpoint in a metric series. A resumed attempt records the points after this position again.
struct SeriesPosition {
  int64_t step = 0;             // last finished optimizer step
  int64_t time_ms = INT64_MAX;  // points of that step with a later time come after the checkpoint

  // Returns whether `point` was recorded before the checkpoint.
  bool has(const Point& point) const { return point.step < step || (point.step == step && point.time_ms <= time_ms); }
};

inline constexpr size_t kChunkPoints = 512;

// Encodes 1 to kChunkPoints points. Steps are run-length encoded differences, and times are differences. Values are the
// significant bytes of the XOR with the previous value, or raw doubles if those are shorter. The XOR follows Gorilla
// (Pelkonen et al., VLDB 2015), with byte instead of bit granularity. A CRC-32 ends the chunk.
std::vector<std::byte> encode_points(std::span<const Point> points);

// Returns the points, or nullopt if the bytes are damaged.
std::optional<std::vector<Point>> decode_points(std::span<const std::byte> bytes);

// Parts of the format that the encoder and the decoder share.
inline constexpr std::byte kPackedValues{1}, kRawValues{2};  // first byte of a chunk: encoding of the values
inline constexpr size_t kCrcBytes = 4;

// CRC-32 (IEEE 802.3) of `bytes`, which are all bytes of a chunk before its checksum.
uint32_t chunk_crc(std::span<const std::byte> bytes);

}  // namespace runner::store
