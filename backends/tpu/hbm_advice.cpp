#include "backends/tpu/hbm_advice.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "backends/tpu/hbm_report.h"

namespace runner::backends::tpu {
namespace {

constexpr int64_t kNarrowAxis = 4, kLeastBytes = int64_t{1} << 20;
constexpr double kLeastExpansion = 8;
constexpr size_t kMostTexts = 3;

// The size of a batch: the first axis of the first batch input.  None: there is no batch.
std::optional<int64_t> batch_of(const Program& program) {
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kBatch && program.type(input.value).shape.rank() > 0)
      return program.type(input.value).shape[0];
  return std::nullopt;
}

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
  const std::optional<int64_t> batch = batch_of(device.program);
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

// Does what `id` computes sum over the samples of operands that grow?
bool sums_over_samples(const Program& program, ValueId id, const std::vector<char>& grows) {
  const auto grown = [&](size_t i) { return grows[static_cast<size_t>(program.operands(id)[i])] != 0; };
  switch (program.node(id).op) {
    case Op::kMatmul: return program.type(id).shape.rank() == 2 && grown(0) && grown(1);
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kArgMax: return !program.attrs(id).empty() && program.attrs(id)[0] == 0;
    case Op::kLayerNormGradGamma:
    case Op::kEmbeddingGrad: return true;
    default: return false;
  }
}

}  // namespace

std::vector<char> grows_with_batch(const Program& program) {
  std::vector<char> grows(static_cast<size_t>(program.size()), 0);
  const std::optional<int64_t> batch = batch_of(program);
  if (!batch) return grows;
  for (const Input& input : program.inputs()) {
    const Shape& shape = program.type(input.value).shape;
    grows[static_cast<size_t>(input.value)] = input.kind == InputKind::kBatch && shape.rank() > 0 && shape[0] == *batch;
  }
  for (ValueId id = 0; id < program.size(); ++id) {
    const std::span<const ValueId> operands = program.operands(id);
    const bool reads = std::any_of(operands.begin(), operands.end(),
                                   [&](ValueId operand) { return grows[static_cast<size_t>(operand)] != 0; });
    if (reads && !sums_over_samples(program, id, grows)) grows[static_cast<size_t>(id)] = 1;
  }
  return grows;
}

Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  const Advice all[] = {swap_axes(device, plan), halve_batch(device, plan), use_bf16(device, options, plan),
                        shrink_model(device, plan)};
  const int64_t excess = plan.used() - plan.usable();
  for (const Advice& advice : all)
    if (advice.saving >= excess && advice.saving > 0) return advice;
  return *std::max_element(std::begin(all), std::end(all),
                           [](const Advice& a, const Advice& b) { return a.saving < b.saving; });
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
