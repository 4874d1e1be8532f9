#include "backends/tpu/lowered_graph.h"

#include <algorithm>
#include <optional>

#include "backends/exec/backend.h"
#include "backends/ir/passes/passes.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/hbm_advice.h"
#include "schema/base/error.h"

namespace runner::backends::tpu {
namespace {

Program with_states_of_zeros(const GraphIdentity& graph) {
  std::vector<std::optional<double>> zeros;
  int32_t state = 0;
  for (const Input& input : graph.program->inputs()) {
    const bool is_absent = input.kind == InputKind::kState && std::ranges::binary_search(graph.absent, state++);
    zeros.push_back(is_absent ? std::make_optional(0.0) : std::nullopt);
  }
  return with_constants(*graph.program, zeros);
}

HbmOptions memory_of(const Hardware& hardware, bool donate) {
  return {
      .generation = hardware.machine.generation, .donate = donate, .prefetched_batches = hardware.prefetched_batches};
}

GraphPrediction prediction_with(const HbmPlan& memory, const DeviceProgram& device, const Machine& machine) {
  GraphPrediction prediction = prediction_of(predict_step(device, trace_tensors(device), machine), machine);
  const TensorBytes tensors = tensors_at_peak(memory);
  prediction.hbm_bytes = memory.peak();
  prediction.unpadded_bytes = tensors.unpadded;
  prediction.padded_bytes = tensors.padded;
  return prediction;
}

}  // namespace

GraphPrediction prediction_of(const StepTime& time, const Machine& machine) {
  return {.flops = time.cost.flops,
          .bytes = time.cost.bytes,
          .least_seconds = time.least(),
          .most_seconds = time.most(machine.generation),
          .formula = formula_text(time, machine)};
}

LoweredGraph::LoweredGraph(const GraphIdentity& graph, const StateTensors& state_tensors)
    : program_(legalise(optimise(with_states_of_zeros(graph)))), groups_(make_groups(program_)) {
  size_t state = 0;
  for (const Input& input : program_.inputs()) {
    const bool known = input.kind == InputKind::kState && state < state_tensors.size();
    std::vector<TensorType>& types = inputs_.emplace_back();
    if (known)
      for (const StateTensor& tensor : state_tensors[state]) types.push_back(tensor.type);
    state += input.kind == InputKind::kState;
  }
}

DeviceProgram LoweredGraph::on(const Hardware& hardware) const {
  return {.program = program_, .groups = groups_, .inputs = inputs_, .types = hardware.types};
}

GraphPrediction LoweredGraph::predict(const Hardware& hardware, bool donate) const {
  const DeviceProgram device = on(hardware);
  return prediction_with(plan_hbm(device, memory_of(hardware, donate)), device, hardware.machine);
}

std::vector<std::string> LoweredGraph::check_memory(const Hardware& hardware) const {
  const DeviceProgram device = on(hardware);
  const HbmOptions options = memory_of(hardware, /*donate=*/true);
  const HbmPlan memory = plan_hbm(device, options);
  if (!memory.fits()) {
    OutOfMemory error(resource_exhausted_text(device, options, memory), memory.used(), memory.usable());
    error.locate(line_of_largest(device, memory));
    throw error;
  }
  return padding_texts(device, memory);
}

GraphForecast LoweredGraph::forecast(const Hardware& hardware) const {
  const DeviceProgram device = on(hardware);
  const HbmOptions options = memory_of(hardware, /*donate=*/true);
  const HbmPlan memory = plan_hbm(device, options);
  return {.prediction = prediction_with(memory, device, hardware.machine),
          .exhausted = memory.fits() ? "" : resource_exhausted_text(device, options, memory),
          .padding = padding_texts(device, memory)};
}

}  // namespace runner::backends::tpu
