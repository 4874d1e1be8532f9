// Points of one metric, and the bytes of a chunk of them (docs/store.md, "Chunks").
//
// Every value comes back bit for bit, NaN payloads too.  A decoder never trusts its input: whatever bytes it gets, it
// returns the points or says that they are damaged.
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace runner::store {

struct Point {
  int64_t step = 0;
  int64_t time_ms = 0;  // since 1970, UTC
  double value = 0;
};

// The points that a state stands behind; those after it are recorded again by who goes on from it.
struct Recorded {
  int64_t step = 0;             // the last finished one
  int64_t time_ms = INT64_MAX;  // of which younger points come after the state

  bool has(const Point& point) const { return point.step < step || (point.step == step && point.time_ms <= time_ms); }
};

inline constexpr size_t kChunkPoints = 512;

// Steps as runs of equal differences, times as differences, values as the significant bytes of the XOR with the value
// before (the idea of Gorilla, Pelkonen et al., VLDB 2015, on byte borders), or as they are where that is shorter;
// CRC-32 at the end.  `points`: 1…kChunkPoints.
std::vector<std::byte> encode_points(std::span<const Point> points);

// None: the bytes are damaged.
std::optional<std::vector<Point>> decode_points(std::span<const std::byte> bytes);

}  // namespace runner::store
