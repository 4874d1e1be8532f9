// Advice on what to change if memory is short or wasted, with the bytes saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/device_model/memory_advice.h"
#include "backends/tpu/hbm.h"
#include "schema/base/source_mark.h"

namespace runner::backends::tpu {

// Memory in excess of the limit, and the part of the used memory that each change could save, in bytes.
struct Shortage {
  int64_t excess = 0;
  std::optional<int64_t> batch = {};       // batch size; none: there is no batch
  int64_t with_batch = 0, with_model = 0;  // used bytes that grow with the batch, and with the model
  int64_t saved_by_bf16 = 0;
  int64_t with_own = 0;  // used bytes that grow with neither: tensors that a hook creates
  std::string own = {};  // the largest of these: "hook.lua:8: f32[20000,300]"
};

// By value: whether a line of a hook creates it from neither the batch nor the weights.
std::vector<bool> own_of_hook(const Program& program);
// Returns the source line of the largest tensor at the peak if it is such a tensor, else an unknown line.
SourceMark line_of_largest(const DeviceProgram& device, const HbmPlan& plan);
// Example: "hook.lua:8: f32[20000,300]".
std::string tensor_text(const SourceMark& where, const TensorType& type);

// Returns the least costly change that suffices. If none does, returns the one that saves most and says that it is not
// enough. In order of cost: halve the batch, mixed_precision bf16, a smaller batch, a smaller hook tensor, a smaller
// model.
Advice change_of(const Shortage& shortage);

// Advice for a Program. Swapping the axes of the most padded tensor is tried before the other changes.
Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan);

struct PaddingFault {
  SourceMark where;
  std::string text;
};

// Returns the computed tensors of at least 1 MiB that padding makes at least eight times as large, because their last
// axis has at most 4 elements. Each text has the order of axes that avoids it. Most padding first.
std::vector<PaddingFault> padding_faults(const DeviceProgram& device, const HbmPlan& plan);

// The same as text lines. Of more than three, returns the first three; the last has the number of the others.
std::vector<std::string> padding_texts(const DeviceProgram& device, const HbmPlan& plan);

}  // namespace runner::backends::tpu
