#include "runner/train/not_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "backends/graph/ops.h"
#include "backends/tensor/float16.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::Program;
using backends::ValueId;

struct Found {
  int64_t element;
  double value;
};

std::optional<Found> find(DType dtype, const std::vector<std::byte>& contents) {
  const size_t size = backends::size_of(dtype);
  for (size_t i = 0; i * size < contents.size(); ++i) {
    const double value = backends::load_element(dtype, contents.data() + i * size);
    if (!std::isfinite(value)) return Found{static_cast<int64_t>(i), value};
  }
  return std::nullopt;
}

// "a feature of sample 17" for a batch input, "0.weight" for a parameter, "the result of exp (32, 10) f32" for the
// rest.
NotFinite describe(const StepBuilder::Recorded& recorded, const nn::ParameterSet& parameters, ValueId id,
                   int64_t element, const backends::Arguments& arguments) {
  const Program& program = recorded.program;
  if (id >= program.size()) return {"the sum of the losses"};
  for (size_t p = 0; p < recorded.parameters.size(); ++p)
    if (recorded.parameters[p] == id)
      return {fmt::format("parameter {}", parameters[static_cast<nn::ParameterId>(p)].name),
              NotFinite::Source::kParameter};
  for (int i = kFeatures; i <= kLabels; ++i) {
    const size_t first_batch = program.inputs().size() - arguments.scalars.size() - kBatchInputCount;
    if (program.inputs()[first_batch + static_cast<size_t>(i)].value != id) continue;
    const auto* ids = reinterpret_cast<const int64_t*>(arguments.batch[kSampleIds]);
    const int64_t per_sample = program.type(id).shape.elements() / program.type(id).shape[0];
    return {fmt::format("{} of sample {}", i == kFeatures ? "a feature" : "a target", ids[element / per_sample]),
            NotFinite::Source::kData};
  }
  return {fmt::format("the result of {} {} in the forward pass", name_of(program.node(id).op),
                      program.type(id).to_string())};
}

}  // namespace

std::optional<NotFinite> first_not_finite(backends::Device& device, const StepBuilder::Recorded& recorded,
                                          const nn::ParameterSet& parameters, const backends::Arguments& arguments) {
  Program program = recorded.program;
  std::vector<ValueId> watched;
  const size_t first_batch = program.inputs().size() - arguments.scalars.size() - kBatchInputCount;
  for (ValueId id = 0; id < recorded.program.size(); ++id) {
    const backends::Op op = program.node(id).op;
    const bool batch_input =
        id == program.inputs()[first_batch + kFeatures].value || id == program.inputs()[first_batch + kLabels].value;
    const bool computed = op != backends::Op::kInput && op != backends::Op::kConstant && op != backends::Op::kSlice;
    if (is_float(program.type(id).dtype) && (computed || batch_input)) watched.push_back(id);
  }
  for (const ValueId id : recorded.parameters)
    if (std::find(watched.begin(), watched.end(), id) == watched.end()) watched.push_back(id);
  std::sort(watched.begin(), watched.end());
  const backends::Value losses{&program, recorded.losses}, counted{&program, recorded.counted};
  watched.push_back(backends::ops::sum(backends::ops::mul(losses, counted)).id);
  for (const ValueId id : watched) program.output("watched", id);

  const auto executable = device.compile(program);
  device.wait(device.submit(*executable, arguments));
  for (size_t i = 0; i < watched.size(); ++i) {
    std::vector<std::byte> contents(program.type(watched[i]).bytes());
    device.read_output(*executable, static_cast<int>(i), contents);
    const DType dtype = program.type(watched[i]).dtype;
    if (const auto found = find(dtype, contents)) {
      NotFinite result = describe(recorded, parameters, watched[i], found->element, arguments);
      result.what += fmt::format(" is {}", found->value);
      return result;
    }
  }
  return std::nullopt;
}

}  // namespace runner::train
