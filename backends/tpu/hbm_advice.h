// What to change where memory is short or wasted, with the bytes that it saves.
#pragma once

#include <string>
#include <vector>

#include "backends/runtime/memory_advice.h"
#include "backends/tpu/hbm.h"
#include "schema/source_mark.h"

namespace runner::backends::tpu {

// The change that costs least among those after which the Program fits; the one that saves most if none suffices.  In
// order: swap the axes of the tensor with most padding, halve the batch, mixed_precision bf16, a smaller model.
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
