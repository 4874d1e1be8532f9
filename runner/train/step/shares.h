// How replicas update the weights that they share: there is one copy of the parameters and of the optimizers' slots,
// and each replica updates a share of it, from the gradients of all.
//
// Nobody writes what another one reads: a replica reads parameters, and writes its own gradients, before all meet at
// the end of a window; then it reads the gradients of all, and reads and writes its share; then all meet again.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "runner/nn/parameter_set.h"
#include "runner/train/step/device_layout.h"

namespace runner::train {

// Floats of a cache line: parts of an array that replicas write have whole ones.
inline constexpr int64_t kFloatsOfLine = 16;

// What one replica updates of each flat buffer.
class Shares {
 public:
  Shares(const nn::ParameterSet& parameters, const Optimizers& optimizers, const schema::CommSpec& comm, int rank,
         int size);

  struct Range {
    int64_t first = 0, count = 0;  // elements
  };
  // Whole cache lines, about as many for each rank.  A rule of a hook's, PowerSGD and counts of parameters' updates
  // look at more than an element at a time: such a buffer is of one rank, whole.  Nothing of a buffer that is not
  // trained.
  const Range& of(int32_t buffer) const { return ranges_[static_cast<size_t>(buffer)]; }

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  int rank_, size_;
  std::vector<Range> ranges_;  // by flat buffer
};

// Those of all ranks.
std::vector<Shares> shares_of_all(const nn::ParameterSet& parameters, const Optimizers& optimizers,
                                  const schema::CommSpec& comm, int size);

// Memory of all ranks for an array of which each has one, a row of whole cache lines, or all together.
struct SharedRows {
  std::shared_ptr<std::byte> memory;
  size_t stride = 0;  // bytes from rank to rank

  std::shared_ptr<std::byte> of(int rank, size_t offset = 0) const {
    return {memory, memory.get() + static_cast<size_t>(rank) * stride + offset};
  }
};
// A row for each rank, zeroed; called by all.  The second of memory that is there once it is touched.
SharedRows share_rows(const backends::TensorType& row, std::string_view name, backends::Collectives& ranks);
SharedRows reserve_rows(const backends::TensorType& row, std::string_view name, backends::Collectives& ranks);
// Of what has been reserved each rank takes its row now; called by all.  Throws Error(kRun) when the system has not so
// much.
void take_rows(const SharedRows& rows, std::string_view name, backends::Collectives& ranks);

// The arrays of a replica.
struct SharedArrays {
  std::vector<std::shared_ptr<backends::Buffer>> arrays;  // as in the layout
  // As complete_window() declares its states: those of the layout, of trained buffers the share alone, then what the
  // other replicas have added up.
  std::vector<std::shared_ptr<backends::Buffer>> window;
  // By array of the layout: those of all replicas, where all read them.
  std::vector<SharedRows> rows;
};

// Whether replicas have one array together, or each has its own, which all read.
inline bool is_common(const DeviceArray& array) {
  return array.role == Role::kParameters || array.role == Role::kSlot || array.role == Role::kCompression;
}
inline bool is_read_by_all(const DeviceArray& array) {
  return array.role == Role::kGradients || (array.role == Role::kSum && array.index == kWindowSum) ||
         (array.role == Role::kUse && array.index == kReached);
}

// What of an array this rank updates, or reads of all: nothing but the whole where it has no share.
backends::TensorType window_type(const DeviceArray& array, const Shares& shares);

// Called by all ranks.  Zeroed.  Throws Error(kRun) when the system has not so much memory, or where the ranks' layouts
// differ.
SharedArrays share_arrays(const DeviceLayout& layout, const Shares& shares, backends::Device& device,
                          backends::Collectives& ranks);

}  // namespace runner::train
