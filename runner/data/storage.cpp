#include "runner/data/storage.h"

#include <algorithm>

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

void scale_values(Storage& storage, std::optional<double> scale) {
  if (!scale.has_value()) return;
  const auto factor = static_cast<float>(*scale);
  for (float& value : storage.values) value *= factor;
}

}  // namespace runner::data
