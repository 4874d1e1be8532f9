// What a training run keeps on the device between steps: which arrays, of what, in which order.
//
// Every step Program declares the same state inputs in this order, whatever it uses, so that one list of buffers binds
// to all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "backends/tpu/graph.h"
#include "runner/nn/parameter_set.h"
#include "runner/train/step/optimizers.h"

namespace runner::train {

enum class Role {
  kParameters,   // of flat buffer `buffer`
  kSlot,         // optimizer slot `index` of it
  kGradients,    // sum over the window so far; where gradients are kept
  kSum,          // (2) f64, {Σ loss, Σ weight} over what enum Sum says
  kScaler,       // () f32, what enum ScalerState says; where the loss is scaled
  kCompression,  // what enum CompressionState says; where gradients travel as power_sgd.h has it
  kClock,        // f64, what enum ClockState says; where the device counts (update_clock.h)
  kUse,          // (its parameters) f64, what enum UseState says; with comm.unused: skip (parameter_use.h)
};

enum Sum : int32_t {
  kWindowSum,  // the window under way
  kLoggedSum,  // the finished windows since the last train/loss point
  kSumCount
};

enum ScalerState : int32_t {
  kScale,
  kGoodSteps,  // since it changed, or since gradients overflowed
  kScalerStateCount
};

enum CompressionState : int32_t {
  kError,       // f32, what its matrices still lack, one behind the other
  kQs,          // f32, their Qs
  kReductions,  // () f64, so far
  kCompressionStateCount
};

enum ClockState : int32_t {
  kMoves,         // (), of the schedule since the row 0 of the table
  kFactors,       // (kClockRows), of each group's learning rate: the table
  kMomenta,       // (kClockRows), where the schedule moves them
  kFirstUpdates,  // (), of the first optimizer; behind it those of the others
};
inline constexpr int64_t kClockRows = 64;

enum UseState : int32_t {
  kUpdates,  // of each parameter
  kReached,  // 1 where a loss of the window so far depends on it, else 0; where gradients are kept
};

struct DeviceArray {
  Role role;
  int32_t buffer = 0;  // of the ParameterSet
  int32_t index = 0;   // slot, or what the enum of the role says
  std::string name;    // "parameters 0", "exp_avg 0", "logged sum"
  backends::TensorType type;
  double initial = 0;
  bool from_start = true;  // false: of zeros, which the first update may make itself
};

// Does an array of the layout hold an element for each of its buffer's parameters?
inline bool holds_parameters(const DeviceArray& array) {
  return array.role == Role::kParameters || array.role == Role::kSlot || array.role == Role::kGradients;
}
// The tensors in it, one behind the other, as a device without flat buffers would have them: "0.weight", "exp_avg of
// 0.weight".
std::vector<backends::tpu::StateTensor> tensors_in(const DeviceArray& array, const nn::ParameterSet& parameters);

class DeviceLayout {
 public:
  // `keeps_gradients`: a window may have several micro-batches, now or because a hook says so later, or a loop of a
  // hook carries gradients on.  `first_scale`: none, or the loss is scaled.  `parameters` must outlive it.
  DeviceLayout(const nn::ParameterSet& parameters, const Optimizers& optimizers, bool keeps_gradients,
               std::optional<double> first_scale = {}, const schema::CommSpec& comm = {});

  // From now on, behind the arrays that there are; nothing where they have been kept already.
  void keep_gradients();

  const std::vector<DeviceArray>& arrays() const { return arrays_; }
  // tensors_in() of each.
  backends::tpu::StateTensors tensors() const;
  bool has(Role role) const;
  // Position of an array in arrays(); it must exist.
  int32_t find(Role role, int32_t buffer = 0, int32_t index = 0) const;

 private:
  // Of one flat buffer.
  void add_like_parameters(Role role, int32_t buffer, int32_t index, std::string_view name, double initial = 0);
  void add_use(UseState index, int32_t buffer, std::string_view name);
  void add_gradients(int32_t buffer);
  void add_compression(const schema::CommSpec& comm, int32_t buffer);
  void add_scaler(double first_scale);
  void add_clock(size_t optimizers);

  const nn::ParameterSet& parameters_;
  const bool skips_unused_;
  std::vector<DeviceArray> arrays_;
};

}  // namespace runner::train
