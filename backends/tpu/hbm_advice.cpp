#include "backends/tpu/hbm_advice.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "backends/graph/batch_growth.h"
#include "backends/tpu/hbm_report.h"

namespace runner::backends::tpu {
namespace {

constexpr int64_t kNarrowAxis = 4, kLeastBytes = int64_t{1} << 20;
constexpr double kLeastExpansion = 8;
constexpr size_t kMostTexts = 3;

// The axes in the order in which the tensor is smallest, the last one most minor: "f32[4,100]" of (100, 4).
std::string reordered_text(const TensorType& type, const Layout& layout) {
  std::vector<int64_t> dims;
  for (int place = type.shape.rank(); place-- > 0;)
    dims.push_back(type.shape[layout.minor_to_major[static_cast<size_t>(place)]]);
  return hlo_text(TensorType{type.dtype, Shape(dims)});
}

Advice swap_axes(const DeviceProgram& device, const HbmPlan& plan) {
  Advice best;
  for (const HbmBuffer& buffer : largest_at_peak(plan, plan.buffers.size())) {
    const Layout tight = tightest_layout(buffer.tensor.type);
    const int64_t saving = buffer.padded() - tight.bytes;
    if (saving <= best.saving) continue;
    const SourceMark& where = device.program.mark_of(buffer.tensor.value);
    best = {fmt::format("{}swap the axes of {}, as {} it takes {} for {}",
                        where.known() ? where.to_string() + ": " : "", hlo_text(buffer.tensor.type),
                        reordered_text(buffer.tensor.type, tight), size_text(tight.bytes), size_text(buffer.padded())),
            saving};
  }
  return best;
}

Advice halve_batch(const DeviceProgram& device, const HbmPlan& plan) {
  const std::optional<int64_t> batch = batch_size_of(device.program);
  if (!batch || *batch < 2) return {};
  const std::vector<char> grows = grows_with_batch(device.program);
  int64_t bytes = plan.prefetched;
  for (const HbmBuffer& buffer : largest_at_peak(plan, plan.buffers.size()))
    if (grows[static_cast<size_t>(buffer.tensor.value)]) bytes += buffer.padded();
  return {fmt::format("halve the batch size, {} to {}", *batch, *batch / 2), bytes / 2};
}

Advice use_bf16(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  if (device.types.f32 != DType::kF32) return {};
  const DeviceProgram narrow{device.program, device.groups, device.inputs, kBf16Types};
  return {"mixed_precision: bf16", plan.used() - plan_hbm(narrow, options).used()};
}

// To half of its states.
Advice shrink_model(const DeviceProgram& device, const HbmPlan& plan) {
  int64_t states = 0;
  for (const HbmBuffer& buffer : plan.buffers)
    for (const Input& input : device.program.inputs())
      if (input.kind == InputKind::kState && input.value == buffer.tensor.value) states += buffer.padded();
  return {fmt::format("a model of half the size: its weights and optimizer state alone take {}", size_text(states)),
          states / 2};
}

}  // namespace

Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  Advice all[] = {swap_axes(device, plan), halve_batch(device, plan), use_bf16(device, options, plan),
                  shrink_model(device, plan)};
  const int64_t excess = plan.used() - plan.usable();
  for (Advice& advice : all) advice.suffices = advice.saving >= excess && advice.saving > 0;
  return first_that_suffices(all);
}

std::vector<PaddingFault> padding_faults(const DeviceProgram& device, const HbmPlan& plan) {
  std::vector<HbmBuffer> found;
  for (const HbmBuffer& buffer : plan.buffers) {
    const TensorType& type = buffer.tensor.type;
    const bool narrow = type.shape.rank() >= 2 && type.shape.back() <= kNarrowAxis && buffer.padded() >= kLeastBytes;
    const bool computed = buffer.allocation != Allocation::kArgument;
    if (computed && narrow && expansion(type, buffer.tensor.layout) >= kLeastExpansion) found.push_back(buffer);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const HbmBuffer& a, const HbmBuffer& b) { return a.padding() > b.padding(); });
  std::vector<PaddingFault> faults;
  for (const HbmBuffer& buffer : found) {
    const TensorType& type = buffer.tensor.type;
    const Layout tight = tightest_layout(type);
    faults.push_back(
        {device.program.mark_of(buffer.tensor.value),
         fmt::format(
             "{} takes {} of hbm for {}: its last axis of {} is padded to 128 ({:.1f}x expansion); with the long "
             "axis last, as {}, it takes {}",
             hlo_text(type), size_text(buffer.padded()), size_text(buffer.tensor.unpadded()), type.shape.back(),
             expansion(type, buffer.tensor.layout), reordered_text(type, tight), size_text(tight.bytes))});
  }
  return faults;
}

std::vector<std::string> padding_texts(const DeviceProgram& device, const HbmPlan& plan) {
  std::vector<std::string> texts;
  const std::vector<PaddingFault> faults = padding_faults(device, plan);
  for (const PaddingFault& fault : faults) {
    const std::string text =
        fault.where.known() ? fmt::format("{}: {}", fault.where.to_string(), fault.text) : fault.text;
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  if (texts.size() <= kMostTexts) return texts;
  texts[kMostTexts - 1] += fmt::format("; and {} more of the kind", texts.size() - kMostTexts);
  texts.resize(kMostTexts);
  return texts;
}

}  // namespace runner::backends::tpu
