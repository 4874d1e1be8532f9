#include "backends/tpu/hbm_advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/ir/batch_growth.h"
#include "backends/tpu/hbm.h"

namespace runner::backends::tpu {
namespace {

constexpr int64_t kNarrowAxis = 4, kMinBytes = int64_t{1} << 20;
constexpr double kMinExpansion = 8;
constexpr size_t kMaxTexts = 3;

// Type with the axes in the order of `layout`, most minor last: "f32[4,100]" for (100, 4).
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
    best = {fmt::format("{}swap the axes of {}: as {} it needs {} instead of {}",
                        where.known() ? where.to_string() + ": " : "", hlo_text(buffer.tensor.type),
                        reordered_text(buffer.tensor.type, tight), xla_size_text(tight.bytes),
                        xla_size_text(buffer.padded())),
            saving};
  }
  return best;
}

Advice halve_batch(const Shortage& shortage) {
  const int64_t batch = shortage.batch.value_or(1);
  if (batch < 2) return {};
  return {fmt::format("halve the batch size from {} to {}", batch, batch / 2), shortage.with_batch / 2};
}

// Halves the batch size until the saving suffices.
Advice shrink_batch(const Shortage& shortage) {
  const int64_t batch = shortage.batch.value_or(1);
  int64_t now = batch;
  const auto saving = [&] { return shortage.with_batch - shortage.with_batch / batch * now; };
  while (now > 1 && saving() < shortage.excess) now /= 2;
  return {fmt::format("a batch size of {} instead of {}", now, batch), saving()};
}

// Percentage of `bytes` that may remain, at least 1.
int64_t percent_left(int64_t bytes, int64_t excess) {
  return std::max<int64_t>(100 * std::max<int64_t>(bytes - excess, 0) / bytes, 1);
}

Advice shrink_own(const Shortage& shortage) {
  if (shortage.with_own == 0) return {};
  const int64_t percent = percent_left(shortage.with_own, shortage.excess);
  return {fmt::format("{} of {}% of the size: it and other tensors that depend on neither batch nor model need {}",
                      shortage.own, percent, xla_size_text(shortage.with_own)),
          shortage.with_own * (100 - percent) / 100};
}

Advice shrink_model(const Shortage& shortage) {
  if (shortage.with_model == 0) return {};
  const int64_t percent = percent_left(shortage.with_model, shortage.excess);
  return {fmt::format("a model of {}% of the size: its weights and tensors that grow with them need {}", percent,
                      xla_size_text(shortage.with_model)),
          shortage.with_model * (100 - percent) / 100};
}

int64_t saved_by_bf16(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  if (device.types.f32 != DType::kF32) return 0;
  const DeviceProgram narrow{device.program, device.groups, device.inputs, kBf16Types};
  return plan.used() - plan_hbm(narrow, options).used();
}

Shortage shortage_of(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  const std::vector<char> grows = grows_with_batch(device.program);
  const std::vector<bool> own = own_of_hook(device.program);
  Shortage shortage{.excess = plan.used() - plan.usable(),
                    .batch = batch_size_of(device.program),
                    .with_batch = plan.prefetched,
                    .saved_by_bf16 = saved_by_bf16(device, options, plan)};
  for (const HbmBuffer& buffer : largest_at_peak(plan, plan.buffers.size())) {
    const auto value = static_cast<size_t>(buffer.tensor.value);
    (grows[value] ? shortage.with_batch : own[value] ? shortage.with_own : shortage.with_model) += buffer.padded();
    if (own[value] && shortage.own.empty())
      shortage.own = tensor_text(device.program.mark_of(buffer.tensor.value), buffer.tensor.type);
  }
  return shortage;
}

}  // namespace

std::vector<bool> own_of_hook(const Program& program) {
  const std::vector<char> grows = grows_with_batch(program);
  std::vector<bool> of_states(static_cast<size_t>(program.size())), own(of_states.size());
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kState) of_states[static_cast<size_t>(input.value)] = true;
  for (ValueId id = 0; id < program.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    for (const ValueId operand : program.operands(id))
      of_states[at] = of_states[at] || of_states[static_cast<size_t>(operand)];
    own[at] = !of_states[at] && grows[at] == 0 && program.mark_of(id).known();
  }
  return own;
}

SourceMark line_of_largest(const DeviceProgram& device, const HbmPlan& plan) {
  const std::vector<HbmBuffer> largest = largest_at_peak(plan, 1);
  if (largest.empty() || !own_of_hook(device.program)[static_cast<size_t>(largest[0].tensor.value)]) return {};
  return device.program.mark_of(largest[0].tensor.value);
}

std::string tensor_text(const SourceMark& where, const TensorType& type) {
  return fmt::format("{}: {}", where.to_string(), hlo_text(type));
}

Advice change_of(const Shortage& shortage) {
  Advice all[] = {halve_batch(shortage),
                  {"mixed_precision: bf16", shortage.saved_by_bf16},
                  shrink_batch(shortage),
                  shrink_own(shortage),
                  shrink_model(shortage)};
  for (Advice& advice : all) advice.suffices = advice.saving >= shortage.excess && advice.saving > 0;
  Advice best = first_that_suffices(all);
  if (!best.suffices) best.text += ", which alone is not enough";
  return best;
}

Advice first_thing_to_change(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  const Shortage shortage = shortage_of(device, options, plan);
  const Advice swapped = swap_axes(device, plan);
  return swapped.saving > 0 && swapped.saving >= shortage.excess ? swapped : change_of(shortage);
}

std::vector<PaddingFault> padding_faults(const DeviceProgram& device, const HbmPlan& plan) {
  std::vector<HbmBuffer> found;
  for (const HbmBuffer& buffer : plan.buffers) {
    const TensorType& type = buffer.tensor.type;
    const bool narrow = type.shape.rank() >= 2 && type.shape.back() <= kNarrowAxis && buffer.padded() >= kMinBytes;
    const bool computed = buffer.allocation != Allocation::kArgument;
    if (computed && narrow && expansion(type, buffer.tensor.layout) >= kMinExpansion) found.push_back(buffer);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const HbmBuffer& a, const HbmBuffer& b) { return a.padding() > b.padding(); });
  std::vector<PaddingFault> faults;
  for (const HbmBuffer& buffer : found) {
    const TensorType& type = buffer.tensor.type;
    const Layout tight = tightest_layout(type);
    faults.push_back(
        {device.program.mark_of(buffer.tensor.value),
         fmt::format("{} needs {} of HBM for {}: its last axis of {} is padded to 128 ({:.1f}x expansion); with the "
                     "long axis last, as {}, it needs {}",
                     hlo_text(type), xla_size_text(buffer.padded()), xla_size_text(buffer.tensor.unpadded()),
                     type.shape.back(), expansion(type, buffer.tensor.layout), reordered_text(type, tight),
                     xla_size_text(tight.bytes))});
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
  if (texts.size() <= kMaxTexts) return texts;
  texts[kMaxTexts - 1] += fmt::format("; and {} more of this kind", texts.size() - kMaxTexts);
  texts.resize(kMaxTexts);
  return texts;
}

}  // namespace runner::backends::tpu
