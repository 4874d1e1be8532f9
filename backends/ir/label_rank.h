// A row of the result of label_rank() (ops.h).
#pragma once

#include <cstdint>

namespace runner::backends {

struct LabelRank {
  int64_t rank;       // number of values that are larger than the label's; −1 for a label outside [0, N)
  int64_t predicted;  // position of the largest value
  int64_t has_nan;    // 1 if a value is NaN, else 0
};
inline constexpr int64_t kLabelRankColumns = sizeof(LabelRank) / sizeof(int64_t);

}  // namespace runner::backends
