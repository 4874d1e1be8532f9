#include <algorithm>
#include <string_view>

#include "runner/report/xla/metrics_report.h"

namespace runner::report::xla {
namespace {

struct Name {
  std::string_view now, before;  // `before` is empty if the older release has no such metric
};
constexpr Name kNames[] = {{"TransferToDeviceTime", "TransferToServerTime"},
                           {"TransferFromDeviceTime", "TransferFromServerTime"},
                           {"LazyTracing", ""},
                           {"PersistentCacheLoad", ""},
                           {"PersistentCacheHit", ""},
                           {"PersistentCacheMiss", ""},
                           {"PersistentCacheDeserializeFailure", ""}};

template <class Entries>
void rename(Entries& entries) {
  for (auto& entry : entries) {
    entry.block = 0;
    const auto* const row = std::ranges::find(kNames, std::string_view(entry.name), &Name::now);
    if (row != std::end(kNames)) entry.name = row->before;
  }
  std::erase_if(entries, [](const auto& entry) { return entry.name.empty(); });
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.name; });
}

}  // namespace

MetricsReport as_in_1_7(MetricsReport report) {
  rename(report.metrics);
  rename(report.counters);
  return report;
}

}  // namespace runner::report::xla
