// Device models: observers that predict what a real device would do with the work that the engine runs.
//
// A ModelledDevice (modelled_device.h) reports allocations, compilations, submissions and host events to the model of
// its device, in the order of the calls. A model never changes results. It may refuse work that the real device would
// refuse, by throwing before the work runs.
//
// The engine may divide work differently from the user's code: ranks that share memory update one copy of the weights
// together. Models see the work of the user's code: UserGraph, SubmissionInfo.
//
// Thread safety: one thread at a time, the one that calls the device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/ir/traced_scalar.h"

namespace runner::backends {

// An array with name and size.
struct ArrayBytes {
  std::string_view name;
  int64_t bytes;
};

// What arrays contain, by name, for messages: "exp_avg 0" → "optimizer state exp_avg".
using ArrayDescriptions = std::map<std::string, std::string, std::less<>>;

// Returns the Program that the user's code would compile, or none if it is the Program that the device runs. A Program
// without nodes: the user's code computes nothing. Empty: like none.
using UserGraph = std::function<std::optional<Program>()>;

// What the user's code does in a submission beyond computing.
struct SubmissionInfo {
  std::span<const TracedScalar> traced = {};  // scalars that the traced code passed
  // States that no step has created yet (indices, ascending); their contents are zeros.
  std::span<const int32_t> absent = {};
  int64_t step = 0;        // training batch, from 1
  bool reads = false;      // the host waits for a value computed so far
  bool evaluates = false;  // belongs to an evaluation
  // To all-reduce as soon as they are ready, as on a rank that shares nothing with others. They refer to the UserGraph.
  std::span<const ReducedBytes> reduced = {};
};

// A submission that is predicted, not made. `reduced`: see SubmissionInfo.
struct PlannedSubmission {
  std::shared_ptr<Executable> executable;
  std::span<const ReducedBytes> reduced = {};
};

// Names of the output of a Program that reads a value: of a tensor, and of acc.optimizer_step_was_skipped.
inline constexpr std::string_view kReadItem = "item", kStepWasSkipped = "step was skipped";

// Actions of the user's code between Programs.
enum class HostEvent : uint8_t {
  kStepMark,
  kScalarRead,      // reads a value computed so far, in training
  kEvaluationRead,  // the same in an evaluation
  kMetricRead,      // reads a metric of completed work
  kStateUse,        // reads or writes the states, as for a checkpoint
  kRecording,       // starts a new recording; work done for reads does not belong to it
};

// What a model knows about an Executable. Freed with it.
class ModelStep {
 public:
  virtual ~ModelStep() = default;
};

// A tensor of a state, as the user's code has it.
struct StateTensor {
  std::string name;
  TensorType type;
};
// By state. A flat parameter buffer has one entry per parameter.
using StateTensors = std::vector<std::vector<StateTensor>>;

// The events and queries of a model do nothing unless it overrides them.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  // Whether the model follows the graphs of the user's code. SubmissionInfo must then describe every execution.
  virtual bool traces_graphs() const = 0;
  // Memory of the modelled device; none if it models none.
  virtual std::optional<int64_t> memory_limit() const = 0;
  // Sets the tensors that each state of every graph contains from now on. Returns the previous ones.
  virtual StateTensors set_state_tensors(StateTensors) { return {}; }

  // An array is allocated. Returns an object that lives as long as the array, or null. Throws OutOfMemory.
  virtual std::shared_ptr<void> on_allocate(int64_t /*bytes*/, std::string_view /*name*/) { return nullptr; }
  // Describes the arrays, and the states of Programs with these names, from now on.
  virtual void describe_arrays(ArrayDescriptions) {}
  // Announces arrays to be allocated, so that the advice in errors counts them. `for_parts`: further arrays needed with
  // gradient accumulation (kept gradients).
  virtual void expect_arrays(std::span<const ArrayBytes> /*arrays*/, std::span<const ArrayBytes> /*for_parts*/) {}

  // `step`: null if the model ignores the executable.
  struct Compiled {
    std::shared_ptr<Executable> executable;
    std::shared_ptr<ModelStep> step;
  };
  // A Program is compiled. Calls `compile`, which compiles it on the device, or returns an executable that the device
  // has stored. Throws OutOfMemory if the graph does not fit even by itself.
  virtual Compiled on_compile(const Program&, const UserGraph&,
                              const std::function<std::shared_ptr<Executable>()>& compile) {
    return {compile(), nullptr};
  }

  // Called before a submission runs; may change how the device launches it. Throws if the real device would refuse it.
  virtual void on_submit(ModelStep&, Submission&, const SubmissionInfo&) {}
  // Called after Device::submit() has returned, or has thrown if `failed`.
  virtual void on_submitted(ModelStep&, const SubmissionInfo&, bool /*failed*/) {}

  // Inputs of a later batch are copied to the device; see DeviceStreams::stage(). Throws OutOfMemory.
  virtual void on_stage(uint64_t /*ticket*/, const ModelStep& /*like*/, std::vector<int64_t> /*bytes_of_inputs*/) {}
  virtual void on_drop_staged() noexcept {}
  // Bytes are copied to or from the device, after all computed work.
  virtual void on_copy_in(int64_t /*bytes*/) {}
  virtual void on_copy_out(int64_t /*bytes*/) {}
  virtual void on_release_temporary() {}
  virtual void on_host_event(HostEvent, int64_t /*times*/) {}

  // Between these calls, which nest, the engine does work of its own that the real device would not do.
  virtual void pause() {}
  virtual void resume() {}

  // Returns the peak memory with these arrays while these steps run: those of an epoch in order, then those of an
  // evaluation, epoch after epoch. None if no memory is modelled. Throws OutOfMemory if it does not suffice.
  virtual std::optional<int64_t> peak_memory(std::span<const ArrayBytes> /*arrays*/,
                                             std::span<const ModelStep* const> /*training*/,
                                             std::span<const ModelStep* const> /*evaluation*/) const {
    return std::nullopt;
  }
  // Returns new warnings for the user.
  virtual std::vector<std::string> take_warnings() { return {}; }
  // Returns warnings about the whole run, for its end.
  virtual std::vector<std::string> analysis() const { return {}; }
};

// Models nothing: the device is what it seems, as the CPU is.
class NullDeviceModel final : public DeviceModel {
 public:
  bool traces_graphs() const override { return false; }
  std::optional<int64_t> memory_limit() const override { return std::nullopt; }
};

}  // namespace runner::backends
