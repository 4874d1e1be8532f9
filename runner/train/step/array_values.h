// The contents of a layout's arrays as values of a Program under construction: initially its inputs, then their updated
// values.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"
#include "runner/train/step/device_layout.h"

namespace runner::train {

using backends::Value;

class ArrayValues {
 public:
  // `values`: values of the inputs in the order of the layout. `layout` must outlive the object.
  ArrayValues(const DeviceLayout& layout, std::vector<Value> values);

  bool has(ArrayRole role) const { return layout_.has(role); }
  Value get(ArrayRole role, int32_t buffer = 0, int32_t index = 0) const;
  void set(Value now, ArrayRole role, int32_t buffer = 0, int32_t index = 0);
  // Like set(), but keeps the current contents unless `applied`, () or (elements) bool, is true or unset.
  void set_if(Value applied, Value now, ArrayRole role, int32_t buffer = 0, int32_t index = 0);
  // Declares outputs that replace the arrays that were set, in the order in which they were first set.
  void output(backends::Program& program) const;

 private:
  const DeviceLayout& layout_;
  std::vector<Value> values_;
  std::vector<int32_t> changed_;
};

}  // namespace runner::train
