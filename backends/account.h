// What a device keeps account of beside what it runs: the graphs that the user's code would have it compile, as the
// emulated TPU, or its memory as if its replica shared nothing with others, as the emulated GPU.
//
// Device::account() has it; null: the device keeps none.  The functions at the end are for whoever does not care.
// Thread safety: as the device's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backends/backend.h"

namespace runner::backends {

// An array by its name and size.
struct ArrayBytes {
  std::string_view name;
  int64_t bytes;
};

// What the user's code does between Programs.
enum class HostEvent : uint8_t {
  kStepMark,
  kScalarRead,  // of a value out of what is under way
  kFigureRead,  // of what is done so far
  kStateUse,    // the states are read, as for a checkpoint, or written
  kRecording,   // it begins anew: of what it has had the device compute for reads, nothing belongs to what comes
};

class Account {
 public:
  virtual ~Account() = default;

  // As Device::compile(), of a step of the user's: `graph` is what the user's code would have the device compile, where
  // the engine divides the work in another way; where the device accounts for its memory, what a replica that shares
  // nothing would compute.
  virtual std::shared_ptr<Executable> compile_graph(const Program& program, const Program& graph) = 0;

  // Calls in between are the engine's own affair, of which a device of the user's would do nothing.  Unaccounted makes
  // them; those of one may lie in those of another.
  virtual void begin_unaccounted() {}
  virtual void end_unaccounted() {}

  virtual bool keeps_graphs() const { return false; }
  virtual void note(HostEvent event, int64_t times) { static_cast<void>(event), static_cast<void>(times); }

  // Whether the device says itself where its memory is short.
  virtual bool accounts_alone() const { return false; }
  // Of such a device: what it takes at most where it has these arrays, and runs these Executables of its own, those of
  // an epoch in their order and then an evaluation's, epoch after epoch.  Throws OutOfMemory where it has not so much.
  virtual int64_t memory_for(std::span<const ArrayBytes> arrays, std::span<const std::shared_ptr<Executable>> training,
                             std::span<const std::shared_ptr<Executable>> evaluation) const {
    static_cast<void>(arrays), static_cast<void>(training), static_cast<void>(evaluation);
    return 0;
  }
  // What errors advise counts the arrays that are about to be made, and those that would be there, too, if batches came
  // in parts whose gradients are kept.
  virtual void expect_arrays(std::span<const ArrayBytes> arrays, std::span<const ArrayBytes> for_parts) {
    static_cast<void>(arrays), static_cast<void>(for_parts);
  }
};

// While one lives, nothing that is compiled, submitted, read or written is accounted for: neither memory nor time. What
// is compiled then is not to be submitted later.
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

// Throws as Device::compile().
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
