// Batches in device memory: inputs that submissions copy, and batches staged ahead of them.
//
// Copies run on the copy stream, concurrently with other work. Two batches can be staged: the one that submissions
// read, and the next. Not thread-safe; for the host's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/copies.h"
#include "backends/gpu/gpu_device.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/streams.h"

namespace runner::backends::gpu {

class StagedBatches {
 public:
  struct Staged {
    BatchCopy copy;
    uint64_t number = 0;    // ticket returned by stage(); 0: not staged
    uint64_t copied = 0;    // count of `copied_` when the copies are complete
    uint64_t failures = 0;  // failures of the streams before the copy; after another failure it may have been skipped
    uint64_t last_use = 0;  // count of `computed` when all submissions that read it are complete
  };

  // All references must outlive the object. `computed`: event recorded after each submission to the compute stream.
  StagedBatches(const std::string& device, Streams& streams, StreamEvent& computed)
      : streams_(streams), computed_(computed), copied_(std::make_shared<StreamEvent>(device)) {}

  // Implements DeviceStreams::stage().
  uint64_t stage(const GpuExecutable& like, std::span<const std::span<const std::byte>> inputs);
  void drop() noexcept;
  // Returns null if the batch is no longer staged.
  Staged* find(uint64_t number);
  bool has(uint64_t number) const;

  // Copies the inputs that `step` reads and that are not staged, and makes `stream` wait for all copies. Returns the
  // address of each input, valid until the next call. `copy` must not be in flight.
  std::span<const std::byte* const> bring(const GpuExecutable& step, std::span<const std::byte* const> batch,
                                          const Staged* staged, BatchCopy& copy, StreamKind stream);

 private:
  uint64_t launch(BatchCopy& copy);

  Streams& streams_;
  StreamEvent& computed_;
  const std::shared_ptr<StreamEvent> copied_;
  std::array<Staged, kStagedBatches> staged_;
  uint64_t count_ = 0;                              // number staged so far
  std::vector<const std::byte*> brought_;           // by input
  std::vector<std::span<const std::byte>> wanted_;  // inputs to copy, in host memory
};

}  // namespace runner::backends::gpu
