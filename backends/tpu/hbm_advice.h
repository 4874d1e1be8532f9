// What to change where memory is short or wasted, with the bytes that it saves.
#pragma once

#include <string>
#include <vector>

#include "backends/tpu/hbm.h"
#include "schema/source_mark.h"

namespace runner::backends::tpu {

struct Advice {
  std::string text;    // "halve the batch size, 64 to 32"
  int64_t saving = 0;  // bytes of used(), predicted
};

// The change that costs least among those after which the Program fits; the one that saves most if none suffices.  In
// order: swap the axes of the tensor with most padding, halve the batch, mixed_precision bf16, a smaller model.
Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan);

// By value: does it grow with the batch, whose size is the first axis of the batch inputs?  Sums over samples, as
// gradients of parameters are, do not.
std::vector<char> grows_with_batch(const Program& program);

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
