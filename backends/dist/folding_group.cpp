#include "backends/dist/folding_group.h"

#include <numeric>

#include "backends/dist/collective_span.h"
#include "schema/base/error.h"

namespace runner::backends {

void FoldingGroup::all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction,
                              const Site& site) {
  const ScopedSpan span = collective_span("all_reduce", values.size(), site);
  CallRecord record = CallRecord::of(CallKind::kAllReduce, type, site);
  record.reduction = reduction;
  fold_all(record, values, 0, values);
}

void FoldingGroup::reduce_scatter(const TensorType& type, std::span<const std::byte> values,
                                  std::span<const int64_t> counts, std::span<std::byte> mine, Reduction reduction,
                                  const Site& site) {
  const ScopedSpan span = collective_span("reduce_scatter", values.size(), site);
  CallRecord record = CallRecord::of(CallKind::kReduceScatter, type, site);
  record.reduction = reduction;
  const auto own = counts.begin() + rank();
  RUN_ASSERT(std::ssize(counts) == size() && mine.size() == static_cast<size_t>(*own) * size_of(type.dtype));
  const int64_t first = std::accumulate(counts.begin(), own, int64_t{0});
  fold_all(record, values, static_cast<size_t>(first) * size_of(type.dtype), mine);
}

}  // namespace runner::backends
