// Encodes points as layouts before 13 had them (store/encoded_points.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "store/point.h"

namespace runner::store {

// Encodes 1 to kEncodedPoints points. Values are packed or raw, whichever is shorter.
std::vector<std::byte> encode_points(std::span<const Point> points);

}  // namespace runner::store
