// The arrays that a training run keeps on the device between steps: roles, types and order.
//
// Every step Program declares the same state inputs in this order, whether it uses them or not, so that one list of
// buffers binds to all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/tensor/shape.h"
#include "runner/model/parameter_set.h"
#include "runner/train/step/optimizers.h"
#include "schema/base/required.h"

namespace runner::train {

enum class ArrayRole {
  kParameters,     // of flat buffer `buffer`
  kSlot,           // optimizer slot `index` of `buffer`
  kGradients,      // sum over the optimizer step so far; only if gradients are kept
  kSum,            // (2) f64, {Σ loss, Σ weight}; see enum Sum
  kScaler,         // () f32; see enum ScalerState; only with loss scaling
  kCompression,    // see enum CompressionState; only with PowerSGD (power_sgd.h)
  kClock,          // f64; see enum ClockState; only if the device counts updates (update_clock.h)
  kUse,            // (parameters) f64; see enum UseState; only with comm.unused: skip (parameter_use.h)
  kBuffer,         // buffer `index` of the model, an nn::BufferId
  kBufferAverage,  // its average; only of f32 buffers, and only if the run averages its weights
};

enum Sum : int32_t {
  kStepSum,    // of the optimizer step in progress
  kLoggedSum,  // of finished optimizer steps since the last train/loss point
  kSumCount
};

enum ScalerState : int32_t {
  kScale,
  kGoodSteps,  // since the scale changed or gradients overflowed
  kScalerStateCount
};

enum CompressionState : int32_t {
  kError,       // f32, error feedback of the compressed matrices, concatenated
  kQs,          // f32, their Q matrices, concatenated
  kReductions,  // () f64, number of reductions so far
  kCompressionStateCount
};

enum ClockState : int32_t {
  kMoves,         // (), schedule steps since row 0 of the rate table
  kFactors,       // (kClockRows · optimizers), table of learning rate factors: those of all optimizers for each row
  kMomenta,       // (kClockRows), table of momenta, if the schedule changes them
  kFirstUpdates,  // (), updates of the first optimizer; those of the other optimizers follow
};
inline constexpr int64_t kClockRows = 64;

enum UseState : int32_t {
  kUpdates,  // updates per parameter
  kReached,  // 1 if a loss of the optimizer step so far depends on the parameter, else 0; only if gradients are kept
};

// Where ranks keep an array, if they share memory.
enum class Sharing {
  kCommon,     // once, for all ranks
  kReadByAll,  // on each rank; all ranks read it
  kOfRank,     // on each rank, for itself
};

// What an array contains after a checkpoint is restored, where the checkpoint has no section for it.
enum class OnRestore { kZero, kKeep };

struct DeviceArray {
  ArrayRole role;
  Required<Sharing> sharing;
  Required<OnRestore> on_restore;
  int32_t buffer = 0;  // index in the ParameterSet
  int32_t index = 0;   // slot, nn::BufferId, or a value of the role's enum
  std::string name;    // "parameters 0", "exp_avg 0", "logged sum"
  // For messages about memory: "weights", "optimizer state exp_avg of parameter group 1".
  std::string description;
  backends::TensorType type;
  double initial = 0;
  bool from_start = true;           // false: initially zeros, which the first update may create
  bool is_average = false;          // see optim::Slot
  bool is_like_parameters = false;  // one element per parameter element of its buffer

  bool is_of_model_buffer() const { return role == ArrayRole::kBuffer || role == ArrayRole::kBufferAverage; }
  bool is_common() const { return sharing == Sharing::kCommon; }
  bool is_read_by_all() const { return sharing == Sharing::kReadByAll; }
};

// Returns the tensors that an array concatenates, as a device without flat buffers would have them: "0.weight",
// "exp_avg of 0.weight".
std::vector<backends::StateTensor> tensors_in(const DeviceArray& array, const nn::ParameterSet& parameters);

class DeviceLayout {
 public:
  // `keeps_gradients`: an optimizer step may have several micro-batches, now or later at a hook's request, or a hook's
  // training loop keeps gradients. `first_scale`: initial loss scale; none without loss scaling. `skips_unlabelled`: a
  // step updates nothing if none of its samples has a weight. `parameters` must outlive the object.
  DeviceLayout(const nn::ParameterSet& parameters, const Optimizers& optimizers, bool keeps_gradients,
               std::optional<double> first_scale = {}, const schema::CommSpec& comm = {},
               bool skips_unlabelled = false);

  // Only what evaluations read and count: no slots but averages, and no gradients.
  static DeviceLayout for_evaluation(const nn::ParameterSet& parameters, const Optimizers& optimizers);
  bool only_evaluates() const { return only_evaluates_; }

  // Adds gradient arrays after the existing arrays. Does nothing if there are some already.
  void keep_gradients();

  const std::vector<DeviceArray>& arrays() const { return arrays_; }
  // Returns tensors_in() of each array.
  backends::StateTensors tensors() const;
  // Returns the descriptions of the arrays and of those that keep_gradients() would add.
  backends::ArrayDescriptions descriptions() const;
  bool has(ArrayRole role) const;
  bool skips_unlabelled() const { return skips_unlabelled_; }
  // Returns the position of an array in arrays(). The array must exist.
  int32_t find(ArrayRole role, int32_t buffer = 0, int32_t index = 0) const;
  // Returns the position of the array with the weights that evaluations use: the average of the buffer's weights if the
  // run keeps one, else the weights themselves.
  int32_t evaluated_weights(int32_t buffer) const;
  // The same for a buffer of the model.
  int32_t evaluated_buffer(nn::BufferId id) const;

 private:
  // Adds an array with one element per parameter element of a flat buffer.
  void add_like_parameters(ArrayRole role, Sharing sharing, int32_t buffer, int32_t index, std::string_view name,
                           const std::string& description, double initial = 0);
  void add_use(UseState index, Sharing sharing, int32_t buffer, std::string_view name, const std::string& description);
  void add_gradients(int32_t buffer);
  void add_compression(const schema::CommSpec& comm, int32_t buffer);
  void add_scaler(double first_scale);
  void add_clock(size_t optimizers);
  void add_model_buffers(bool are_averaged);
  // Adds the parameters of a flat buffer to a description, if other buffers could be meant.
  std::string of_buffer(const std::string& description, int32_t buffer) const;

  const nn::ParameterSet& parameters_;
  const bool skips_unused_, skips_unlabelled_;
  bool only_evaluates_ = false;
  std::vector<DeviceArray> arrays_;
};

}  // namespace runner::train
