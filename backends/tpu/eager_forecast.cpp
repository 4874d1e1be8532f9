#include <algorithm>

#include <fmt/format.h>

#include "backends/exec/backend.h"
#include "backends/exec/fusion.h"
#include "backends/ir/batch_growth.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/hbm_advice.h"

namespace runner::backends::tpu {
namespace {

// Builds the eager step with every scalar as an input.
EagerStep step_of(const GraphIdentity& graph, const StateTensors& state_tensors, const Hardware& hardware) {
  const auto scalars = std::ranges::count(graph.program->inputs(), InputKind::kScalar, &Input::kind);
  return eager_step(graph, BakedNumbers(static_cast<size_t>(scalars)), state_tensors, hardware);
}

// Index of the operation with the highest memory use.
size_t peak_of(const EagerMemory& memory) {
  size_t peak = 0;
  for (size_t i = 1; i < memory.moments.size(); ++i)
    if (memory.used(i) > memory.used(peak)) peak = i;
  return peak;
}

int64_t used_in_bf16(const GraphIdentity& graph, const StateTensors& state_tensors, Hardware hardware) {
  hardware.types = kBf16Types;
  const EagerMemory memory = step_of(graph, state_tensors, hardware).memory;
  return memory.used(peak_of(memory));
}

// Describes the largest tensor that a hook creates from neither the batch nor the weights; empty if there is none.
std::string largest_own(const Program& tensors, const DeviceTypes& types) {
  const std::vector<bool> own = own_of_hook(tensors);
  ValueId largest = kNoValue;
  const auto bytes = [&](ValueId id) { return tensors.type(id).bytes(); };
  for (ValueId id = 0; id < tensors.size(); ++id)
    if (own[static_cast<size_t>(id)] && (largest == kNoValue || bytes(id) > bytes(largest))) largest = id;
  return largest == kNoValue ? "" : tensor_text(tensors.mark_of(largest), types.of(tensors.type(largest)));
}

// Advice if the operations do not fit. Traced as one graph this step may fit, even if another graph of the same
// optimizer step does not.
std::string advice_for(const EagerStep& step, const GraphForecast& traced, const GraphIdentity& graph,
                       const StateTensors& state_tensors, const Hardware& hardware) {
  const EagerMemory& memory = step.memory;
  if (traced.exhausted.empty())
    return fmt::format("disable tpu.eager: traced as one graph this step needs {}",
                       xla_size_text(traced.prediction.hbm_bytes - memory.reserved));
  const size_t peak = peak_of(memory);
  const EagerMoment& moment = memory.moments[peak];
  const bool is_narrow = hardware.types.f32 != DType::kF32;
  const Advice advice =
      change_of({.excess = memory.used(peak) - memory.usable,
                 .batch = batch_size_of(step.tensors),
                 .with_batch = moment.with_batch + memory.prefetched,
                 .with_model = moment.padded - moment.with_batch - moment.with_own,
                 .saved_by_bf16 = is_narrow ? 0 : memory.used(peak) - used_in_bf16(graph, state_tensors, hardware),
                 .with_own = moment.with_own,
                 .own = largest_own(step.tensors, hardware.types)});
  return fmt::format("{} (saves about {}); as one graph, without tpu.eager, it does not fit either", advice.text,
                     xla_size_text(advice.saving));
}

// Error text of PyTorch/XLA for a buffer that cannot be allocated at run time.
std::string exhausted_text(const EagerStep& step, size_t op, const std::string& advice) {
  const EagerMemory& memory = step.memory;
  const ValueId node = step.split_ops[op].node;
  const int64_t result = memory.moments[op].result, free = memory.usable - memory.used(op) + result;
  const SourceMark& line = step.tensors.mark_of(node);
  return fmt::format(
      "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate {}. That was not possible. There are "
      "{} free.; (0x0x0_HBM0)\n\nThe operation is \"{}\"{}; in addition to its result, live tensors need {}, "
      "prefetched batches {}, and the code of the operations {}.\n"
      "\nFirst thing to change: {}",
      xla_size_text(result), xla_size_text(std::max<int64_t>(free, 0)), to_string(step.tensors, node),
      line.known() ? fmt::format(" ({})", line.to_string()) : "", xla_size_text(memory.moments[op].padded - result),
      xla_size_text(memory.prefetched), xla_size_text(memory.code), advice);
}

GraphPrediction prediction_of(const EagerStep& step, const Hardware& hardware) {
  const Program program = legalise(step.tensors);
  const std::vector<Group> groups = make_groups(program, Fusion::kNone);
  const DeviceProgram device{.program = program, .groups = groups, .inputs = {}, .types = hardware.types};
  GraphPrediction prediction =
      prediction_of(predict_step(device, trace_tensors(device), hardware.machine), hardware.machine);
  for (size_t i = 0; i < step.split_ops.size(); ++i) {
    if (step.memory.peak(i) <= prediction.hbm_bytes) continue;
    prediction.hbm_bytes = step.memory.peak(i);
    prediction.unpadded_bytes = step.memory.moments[i].unpadded;
    prediction.padded_bytes = step.memory.moments[i].padded;
  }
  return prediction;
}

}  // namespace

GraphForecast eager_forecast(const GraphIdentity& graph, const StateTensors& state_tensors, const Hardware& hardware) {
  GraphForecast forecast = LoweredGraph(graph, state_tensors).forecast(hardware);
  const EagerStep step = step_of(graph, state_tensors, hardware);
  const std::optional<size_t> beyond = first_beyond_memory(step);
  const auto advice = [&] { return advice_for(step, forecast, graph, state_tensors, hardware); };
  forecast.exhausted = beyond ? exhausted_text(step, *beyond, advice()) : "";
  forecast.prediction = prediction_of(step, hardware);
  return forecast;
}

GraphForecast check_eager_memory(const GraphIdentity& graph, const StateTensors& state_tensors,
                                 const Hardware& hardware) {
  const LoweredGraph lowered(graph, state_tensors);
  const EagerStep step = step_of(graph, state_tensors, hardware);
  if (step.split_ops.empty()) lowered.check_memory(hardware);  // only the arguments use memory
  GraphForecast traced = lowered.forecast(hardware);
  const std::optional<size_t> beyond = first_beyond_memory(step);
  if (!beyond) return traced;
  const std::string advice = advice_for(step, traced, graph, state_tensors, hardware);
  OutOfMemory error(exhausted_text(step, *beyond, advice), step.memory.used(peak_of(step.memory)), step.memory.usable);
  error.locate(step.tensors.mark_of(step.split_ops[*beyond].node));
  throw error;
}

}  // namespace runner::backends::tpu
