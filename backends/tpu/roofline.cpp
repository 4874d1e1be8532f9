#include "backends/tpu/roofline.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/device_model/ring_all_reduce.h"
#include "backends/ir/op_def.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::tpu {
namespace {

// Assumed, since no figures are published: a launch takes 1 to 2 us, a transcendental 4 to 10 vector operations, a
// random number some tens.
constexpr double kLaunchSeconds = 1.5e-6;
constexpr double kOperationsOfTranscendental = 7, kOperationsOfRandom = 40;
constexpr double kHopSeconds = 1e-6;

class Predictor {
 public:
  Predictor(const DeviceProgram& device, const Machine& machine)
      : program_(device.program), types_(device.types), machine_(machine), row_(row_of(machine.generation)) {}

  void add(const Group& group, const Cost& cost) {
    time_.cost += cost;
    const ValueId id = group.nodes[0];
    if (is_collective(program_.node(id).op)) {
      time_.all_reduce += all_reduce_seconds(cost.bytes / 2, machine_.devices, machine_.generation);
      return;
    }
    const bool product = runs_on_matrix_units(id);
    const double matrix = product ? matrix_seconds(id, cost) : 0;
    const double vector = product ? 0 : vector_operations(group, cost) / row_.vector_flops();
    const double memory = static_cast<double>(cost.bytes) / row_.hbm_rate;
    time_.matrix += matrix;
    time_.vector += vector;
    time_.memory += memory;
    time_.bound += std::max({matrix, vector, memory});
    time_.launching = ++time_.launches * kLaunchSeconds;
  }

  // Batches are uploaded in device types, without padding, which the device adds.
  void add_upload(const DeviceTensors& tensors) {
    for (const Input& input : program_.inputs())
      if (input.kind == InputKind::kBatch)
        for (const Piece& piece : tensors.pieces[static_cast<size_t>(input.value)])
          time_.upload +=
              static_cast<double>(tensors.tensors[static_cast<size_t>(piece.tensor)].unpadded()) / row_.host_rate;
  }

  const StepTime& time() const { return time_; }

 private:
  DType operand_type(ValueId id) const { return types_.of(program_.type(program_.operands(id)[0]).dtype); }

  // Products with a vector run on the vector units and are exact; f64 products are emulated there.
  bool runs_on_matrix_units(ValueId id) const {
    return is_matrix_product(program_, id) && operand_type(id) != DType::kF64;
  }

  double matrix_seconds(ValueId id, const Cost& cost) const {
    if (cost.flops == 0) return 0;
    const ProductSize product = NodeQuery(program_, id).product();
    const int passes = operand_type(id) == DType::kF32 ? passes_of(machine_.precision) : 1;
    return passes * static_cast<double>(cost.flops) /
           (row_.matrix_flops * tile_efficiency(product.m, product.k, product.n, row_.matrix_tile));
  }

  double vector_operations(const Group& group, const Cost& cost) const {
    const bool random = kind_of(program_.node(group.nodes[0]).op) == OpKind::kRandom;
    return static_cast<double>(cost.flops) +
           static_cast<double>(cost.transcendentals) * (random ? kOperationsOfRandom : kOperationsOfTranscendental);
  }

  const Program& program_;
  const DeviceTypes types_;
  const Machine machine_;
  const TpuDataSheet& row_;
  StepTime time_;
};

}  // namespace

double tile_efficiency(int64_t m, int64_t k, int64_t n, int64_t tile) {
  constexpr int64_t kRowsOfTile = 8;
  const auto filled = [](int64_t size, int64_t unit) {
    return static_cast<double>(size) / static_cast<double>(round_up(size, unit));
  };
  return filled(m, kRowsOfTile) * filled(k, tile) * filled(n, tile);
}

double all_reduce_seconds(int64_t bytes, int devices, Generation generation) {
  if (devices <= 1) return 0;
  const TpuDataSheet& row = row_of(generation);
  const auto size = static_cast<double>(bytes);
  const int chips = ceil_div(devices, row.devices_per_chip);
  // Two devices per chip: each reads both operands and writes the sum.
  const double on_chip = row.devices_per_chip > 1 ? 3 * size / row.hbm_rate : 0;
  return on_chip + ring_all_reduce_seconds(size, chips, 2 * row.link_rate, kHopSeconds);
}

StepTime predict_step(const DeviceProgram& device, const DeviceTensors& tensors, const Machine& machine) {
  Predictor predictor(device, machine);
  const std::vector<Cost> costs = group_costs(device, tensors);
  for (size_t g = 0; g < costs.size(); ++g)
    if (!tensors.idle[g]) predictor.add(device.groups[g], costs[g]);
  predictor.add_upload(tensors);
  return predictor.time();
}

std::string formula_text(const StepTime& time, const Machine& machine) {
  const TpuDataSheet& row = row_of(machine.generation);
  const auto ms = [](double seconds) { return fmt::format("{:.4g} ms", seconds * 1e3); };
  return fmt::format(
      "{} to {}: t to t / {}, t = max({} + {} launches of {} us + {} of all-reduces, upload of a batch {}); {} is Σ "
      "max(matrix {}, vector {}, hbm {}) over fusions, on {} at {:.4g} TFLOP/s of bf16, {} pass{} for f32, {:.4g} "
      "GB/s; {}: {}",
      ms(time.least()), ms(time.most(machine.generation)), row.efficiency, ms(time.bound), time.launches,
      kLaunchSeconds * 1e6, ms(time.all_reduce), ms(time.upload), ms(time.bound), ms(time.matrix), ms(time.vector),
      ms(time.memory), row.name, row.matrix_flops / 1e12, passes_of(machine.precision),
      machine.precision == MatmulPrecision::kDefault ? "" : "es", row.hbm_rate / 1e9, row.efficiency, row.origin);
}

}  // namespace runner::backends::tpu
