// Batches on the device: what submissions copy there, and what has been copied before they ask for it.
//
// Copies are launched to the copy stream, beside what is under way.  Two batches are staged at a time: one that
// submissions name, and the next.  Not thread-safe; the host's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/copies.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/gpu_clock.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/streams.h"

namespace runner::backends::gpu {

class StagedBatches {
 public:
  struct Staged {
    BatchCopy copy;
    GpuClock::StagedInputs predicted;
    uint64_t number = 0;    // that stage() returned; 0: there is none
    uint64_t copied = 0;    // that the mark behind copies reaches then
    uint64_t failures = 0;  // of the streams before it was launched: behind another one it may have been left out
    uint64_t last_use = 0;  // that `computed` reaches when all submissions that read it are done
  };

  // All must outlive it.  `computed`: the mark behind all submissions to the compute stream.
  StagedBatches(const std::string& device, Streams& streams, DeviceMemory& memory, GpuClock& clock, Event& computed)
      : streams_(streams),
        memory_(memory),
        clock_(clock),
        computed_(computed),
        copied_(std::make_shared<Event>(device)) {}

  // DeviceStreams::stage().  Throws OutOfMemory.
  uint64_t stage(const GpuExecutable& like, std::span<const std::span<const std::byte>> inputs);
  void drop() noexcept;
  // Null: there is none of that number any more.
  Staged* find(uint64_t number);

  // Copies what `step` reads of a batch and is not staged, and lets `stream` wait for the whole.  Returns where each
  // input is then, until the next call.  `copy` must not be under way.
  std::span<const std::byte* const> bring(const GpuExecutable& step, std::span<const std::byte* const> batch,
                                          const Staged* staged, BatchCopy& copy, StreamKind stream);

 private:
  uint64_t launch(BatchCopy& copy);

  Streams& streams_;
  DeviceMemory& memory_;
  GpuClock& clock_;
  Event& computed_;
  const std::shared_ptr<Event> copied_;
  std::array<Staged, 2> staged_;
  uint64_t count_ = 0;                              // so far
  std::vector<const std::byte*> brought_;           // by input
  std::vector<std::span<const std::byte>> wanted_;  // of the host's memory
};

}  // namespace runner::backends::gpu
