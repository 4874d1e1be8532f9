// A process group whose reductions are one operation: a rank gets a part of the left fold of all ranks' values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/dist/call_record.h"
#include "backends/dist/process_group.h"

namespace runner::backends {

class FoldingGroup : public ProcessGroup {
 public:
  void barrier(const Site& site) final { any(false, site); }
  void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, const Site& site) final;
  void reduce_scatter(const TensorType& type, std::span<const std::byte> values, std::span<const int64_t> counts,
                      std::span<std::byte> mine, Reduction reduction, const Site& site) final;

 protected:
  // Folds `values` of all ranks and writes the bytes from `first` on of the result to `wanted`. `record`: the call,
  // with type and reduction.
  virtual void fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                        std::span<std::byte> wanted) = 0;
};

}  // namespace runner::backends
