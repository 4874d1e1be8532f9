// Sharding of weight updates: there is one copy of the parameters and optimizer slots, and each rank updates a shard of
// it from the gradients of all ranks.
//
// No rank writes what another rank reads. Until the barrier at the end of an optimizer step, ranks read parameters and
// write their own gradients. After it, a rank reads the gradients of all ranks and updates its shard. A second barrier
// follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/model/parameter_set.h"
#include "runner/train/step/device_layout.h"

namespace runner::train {

// Floats per cache line. Parts of an array written by different ranks consist of whole cache lines.
inline constexpr int64_t kFloatsOfLine = 16;

// The shard of each flat buffer that one rank updates.
class Shard {
 public:
  Shard(const nn::ParameterSet& parameters, const Optimizers& optimizers, const schema::CommSpec& comm, int rank,
        int size);

  struct Range {
    int64_t first = 0, count = 0;  // elements
  };
  // The shard of a trained buffer, in whole cache lines of about equal number per rank. Update rules of a hook,
  // PowerSGD and per-parameter update counts need all elements; such a buffer belongs to one rank entirely. Untrained
  // buffers have empty shards.
  const Range& of(int32_t buffer) const { return ranges_[static_cast<size_t>(buffer)]; }

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  int rank_, size_;
  std::vector<Range> ranges_;  // by flat buffer
};

// Returns the shards of all ranks.
std::vector<Shard> all_shards(const nn::ParameterSet& parameters, const Optimizers& optimizers,
                              const schema::CommSpec& comm, int size);

// Memory of an array: a row of whole cache lines for each rank, or one row that all ranks share.
struct SharedRows {
  std::shared_ptr<std::byte> memory;
  size_t stride = 0;  // bytes between the rows of successive ranks; 0 if they share one

  std::shared_ptr<std::byte> of(int rank, size_t offset = 0) const {
    return {memory, memory.get() + static_cast<size_t>(rank) * stride + offset};
  }
};
// Allocate a zeroed row for each rank. Collective. `reserve_rows()` commits pages on first touch.
SharedRows share_rows(const backends::TensorType& row, std::string_view name, backends::ProcessGroup& ranks);
SharedRows reserve_rows(const backends::TensorType& row, std::string_view name, backends::ProcessGroup& ranks);
// Commits this rank's row of reserved memory. Collective. Throws Error(kRun) if memory is exhausted.
void take_rows(const SharedRows& rows, std::string_view name, backends::ProcessGroup& ranks);

// Where record_reduction() finds the sums over ranks.
enum class SumSource : uint8_t {
  kRows,            // it adds up the arrays of all ranks, which are states of the Program
  kBuckets,         // like kRows, but the gradients have been summed in buckets
  kFoldedRows,      // the gradients have been summed; it all-reduces everything else
  kAllReduce,       // it all-reduces everything; each rank has all weights and updates all of them
  kReducedInPlace,  // like kAllReduce, but the gradients of this rank have been summed; each host has all weights
};
// Whether the arrays of the other ranks are states of the Program.
inline bool has_rows(SumSource source) {
  return source == SumSource::kRows || source == SumSource::kBuckets;
}

// The arrays of one rank.
struct SharedArrays {
  std::vector<std::shared_ptr<backends::Buffer>> arrays;  // in the order of the layout
  // States of record_reduction(): the arrays of the layout, with only the shard of trained buffers, then, if asked for,
  // what the other ranks have accumulated.
  std::vector<std::shared_ptr<backends::Buffer>> reduction;
  // By array of the layout, the rows of all ranks, if all ranks read them.
  std::vector<SharedRows> rows;
};

// Type of an array in SharedArrays::reduction: its shard, or all of it if it has none. With SumSource::kReducedInPlace,
// gradients are whole.
backends::TensorType type_in_reduction(const DeviceArray& array, const Shard& shard, SumSource source);

// Allocates zeroed arrays in symmetric memory. Collective. Throws Error(kRun) if memory is exhausted or the ranks'
// layouts differ.
SharedArrays share_arrays(const DeviceLayout& layout, const Shard& shard, backends::ModelledDevice& device,
                          backends::ProcessGroup& ranks, SumSource source);

}  // namespace runner::train
