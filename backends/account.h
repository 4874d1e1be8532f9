// Device models: what a device models in addition to what it runs. The emulated TPU models the graphs that the user's
// code would compile; the emulated GPU models its memory as if its rank shared nothing with others.
//
// Device::account() returns the model, or null if the device has none. The functions at the end handle both cases.
// Thread safety: as for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backends/backend.h"

namespace runner::backends {

// An array with name and size.
struct ArrayBytes {
  std::string_view name;
  int64_t bytes;
};

// Actions of the user's code between Programs.
enum class HostEvent : uint8_t {
  kStepMark,
  kScalarRead,  // reads a value computed so far
  kFigureRead,  // reads a metric of completed work
  kStateUse,    // reads or writes the states, as for a checkpoint
  kRecording,   // starts a new recording; work done for reads does not belong to it
};

class Account {
 public:
  virtual ~Account() = default;

  // Like Device::compile(), for a step of the user. `graph`: what the user's code would compile, if the engine divides
  // the work differently. For a device that models its memory: what a rank that shares nothing would compute.
  virtual std::shared_ptr<Executable> compile_graph(const Program& program, const Program& graph) = 0;

  // Mark engine-internal work that the device model ignores; use Unaccounted. Calls nest.
  virtual void begin_unaccounted() {}
  virtual void end_unaccounted() {}

  virtual bool keeps_graphs() const { return false; }
  virtual void note(HostEvent event, int64_t times) { static_cast<void>(event), static_cast<void>(times); }

  // Whether the device itself reports when its modelled memory is exhausted.
  virtual bool accounts_alone() const { return false; }
  // For such a device: returns the peak memory with these arrays while the executables of this device run: those of an
  // epoch in order, then those of an evaluation, epoch after epoch. Throws OutOfMemory if it does not suffice.
  virtual int64_t memory_for(std::span<const ArrayBytes> arrays, std::span<const std::shared_ptr<Executable>> training,
                             std::span<const std::shared_ptr<Executable>> evaluation) const {
    static_cast<void>(arrays), static_cast<void>(training), static_cast<void>(evaluation);
    return 0;
  }
  // Announces arrays to be made, so that the advice in errors counts them. `for_parts`: further arrays needed with
  // gradient accumulation (kept gradients).
  virtual void expect_arrays(std::span<const ArrayBytes> arrays, std::span<const ArrayBytes> for_parts) {
    static_cast<void>(arrays), static_cast<void>(for_parts);
  }
};

// While an object exists, the device model ignores what is compiled, submitted, read or written: neither memory nor
// time counts. Executables compiled meanwhile must not be submitted later.
class Unaccounted {
 public:
  explicit Unaccounted(Device& device) : account_(device.account()) {
    if (account_ != nullptr) account_->begin_unaccounted();
  }
  ~Unaccounted() {
    if (account_ != nullptr) account_->end_unaccounted();
  }
  Unaccounted(const Unaccounted&) = delete;
  Unaccounted& operator=(const Unaccounted&) = delete;

 private:
  Account* const account_;
};

// Throws like Device::compile().
inline std::shared_ptr<Executable> compile_graph(Device& device, const Program& program, const Program& graph) {
  Account* const account = device.account();
  return account != nullptr ? account->compile_graph(program, graph) : device.compile(program);
}
inline bool keeps_graphs(Device& device) {
  return device.account() != nullptr && device.account()->keeps_graphs();
}
inline bool accounts_alone(Device& device) {
  return device.account() != nullptr && device.account()->accounts_alone();
}
inline void note(Device& device, HostEvent event, int64_t times = 1) {
  if (device.account() != nullptr) device.account()->note(event, times);
}

}  // namespace runner::backends
