// A point of a metric. Value types.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Maximum number of points in a chunk of a series (metric_tables.h).
inline constexpr size_t kChunkPoints = 32;

}  // namespace runner::store
