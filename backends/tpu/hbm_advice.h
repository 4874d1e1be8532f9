// What to change where memory is short or wasted, with the bytes that it saves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/memory_advice.h"
#include "backends/tpu/hbm.h"
#include "schema/source_mark.h"

namespace runner::backends::tpu {

// What is used beyond what there is, and what of it a change would take away, in bytes.
struct Shortage {
  int64_t excess = 0;
  std::optional<int64_t> batch = {};       // samples; none: there is no batch
  int64_t with_batch = 0, with_model = 0;  // of what is used: as it grows with the one or the other
  int64_t saved_by_bf16 = 0;
  int64_t with_own = 0;  // what grows with neither: of tensors that lines of a hook make
  std::string own = {};  // the largest of these: "hook.lua:8: f32[20000,300]"
};

// By value: a line of a hook makes it of neither the batch nor the weights.
std::vector<bool> own_of_hook(const Program& program);
// The largest at the peak where it is such a tensor.
SourceMark line_of_largest(const DeviceProgram& device, const HbmPlan& plan);
// "hook.lua:8: f32[20000,300]".
std::string tensor_text(const SourceMark& where, const TensorType& type);

// The change that costs least among those that suffice; if none does, the one that saves most, and that it is not
// enough.  In order: halve the batch, mixed_precision bf16, a smaller batch, a smaller tensor of the hook's, a smaller
// model.
Advice change_of(const Shortage& shortage);

// The same of a Program.  Before all others: swap the axes of the tensor with most padding.
Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan);

struct PaddingFault {
  SourceMark where;
  std::string text;
};

// The computed tensors of a MiB and more whose last axis of 4 and less makes them eight times as large or more, each
// with the order of axes that does not; most padding first.
std::vector<PaddingFault> padding_faults(const DeviceProgram& device, const HbmPlan& plan);

// The same as lines to print; of more than three the first three, the last with the number of the rest.
std::vector<std::string> padding_texts(const DeviceProgram& device, const HbmPlan& plan);

}  // namespace runner::backends::tpu
