#include "runner/train/step/array_values.h"

#include <algorithm>
#include <utility>

#include "backends/ir/ops.h"

namespace runner::train {

ArrayValues::ArrayValues(const DeviceLayout& layout, std::vector<Value> values)
    : layout_(layout), values_(std::move(values)) {}

Value ArrayValues::get(ArrayRole role, int32_t buffer, int32_t index) const {
  return values_[static_cast<size_t>(layout_.find(role, buffer, index))];
}

void ArrayValues::set(Value now, ArrayRole role, int32_t buffer, int32_t index) {
  const int32_t at = layout_.find(role, buffer, index);
  values_[static_cast<size_t>(at)] = now;
  if (std::ranges::find(changed_, at) == changed_.end()) changed_.push_back(at);
}

void ArrayValues::set_if(Value applied, Value now, ArrayRole role, int32_t buffer, int32_t index) {
  set(applied ? backends::ops::where(applied, now, get(role, buffer, index)) : now, role, buffer, index);
}

void ArrayValues::output(backends::Program& program) const {
  for (const int32_t at : changed_)
    program.output(layout_.arrays()[static_cast<size_t>(at)].name, values_[static_cast<size_t>(at)].id, at);
}

}  // namespace runner::train
