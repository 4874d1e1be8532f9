#include "runner/train/engine/local_average.h"

#include <cstdint>
#include <span>
#include <vector>

#include "backends/runtime/spans.h"
#include "schema/base/error.h"

namespace runner::train {

void average_weights(DeviceArrays& arrays, backends::ProcessGroup& ranks, const backends::Site& site) {
  const backends::ScopedSpan span(backends::SpanKind::kOptimizer, "average weights");
  const backends::ModelPause pause = arrays.pause_model();
  const std::vector<DeviceArray>& layout = arrays.layout().arrays();
  for (size_t i = 0; i < layout.size(); ++i) {
    if (!arrays.is_of_parameters(layout[i])) continue;
    RUN_ASSERT(layout[i].type.dtype == backends::DType::kF32);
    std::vector<std::byte> bytes = arrays.read(static_cast<int32_t>(i));
    ranks.all_reduce(layout[i].type, bytes, backends::Reduction::kSum, site);
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value /= static_cast<float>(ranks.size());
    arrays.write(static_cast<int32_t>(i), bytes);
  }
}

}  // namespace runner::train
