#include "runner/data/storage.h"

#include <algorithm>
#include <cmath>

#include "schema/error.h"

namespace runner::data {

void Storage::read_row(int64_t row, std::span<float> out) const {
  const size_t start = static_cast<size_t>(row) * out.size();
  if (!values.empty()) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(start), out.size(), out.begin());
  } else if (rule.has_value()) {
    rule->features(row, out);
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(bytes[start + i]) * scale;
  }
}

void scale_values(Storage& storage, std::optional<double> scale, const std::string& file) {
  if (!scale.has_value()) return;
  const auto factor = static_cast<float>(*scale);
  for (float& value : storage.values) {
    const float scaled = value * factor;
    RUN_CHECK(!std::isinf(scaled), ErrorKind::kData, "{}: sample {}, feature {}: {} times scale {} is not finite", file,
              (&value - storage.values.data()) / storage.width(), (&value - storage.values.data()) % storage.width(),
              value, *scale);
    value = scaled;
  }
}

}  // namespace runner::data
