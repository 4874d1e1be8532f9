#include "backends/runtime/kernel_times.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace runner::backends {
namespace {

struct KernelTime {
  int64_t ns = 0, runs = 0, flops = 0, bytes = 0;
};

struct KernelTimes {
  std::mutex mutex;
  std::map<std::string, KernelTime> by_kernel;
};

KernelTimes& times_of_process() {
  static KernelTimes times;
  return times;
}

}  // namespace

void add_kernel_time(const std::string& name, int64_t ns, int64_t flops, int64_t bytes) {
  KernelTimes& times = times_of_process();
  const std::lock_guard lock(times.mutex);
  KernelTime& time = times.by_kernel[name];
  time.ns += ns;
  time.runs += 1;
  time.flops += flops;
  time.bytes += bytes;
}

std::string take_kernel_times() {
  std::map<std::string, KernelTime> taken;
  {
    KernelTimes& times = times_of_process();
    const std::lock_guard lock(times.mutex);
    taken.swap(times.by_kernel);
  }
  std::vector<std::pair<std::string, KernelTime>> sorted(taken.begin(), taken.end());
  if (sorted.empty()) return "";
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  int64_t all = 0;
  for (const auto& [name, time] : sorted) all += time.ns;
  std::string text = fmt::format("-- kernels: {:.1f} ms\n {:>5} {:>8} {:>10} {:>7} {:>7}  kernel\n",
                                 static_cast<double>(all) * 1e-6, "share", "runs", "us a run", "GF/s", "GB/s");
  for (const auto& [name, time] : sorted) {
    const auto ns = static_cast<double>(std::max<int64_t>(time.ns, 1));
    text += fmt::format(" {:4.1f}% {:8} {:10.1f} {:7.1f} {:7.1f}  {}\n", 100 * ns / static_cast<double>(all), time.runs,
                        ns * 1e-3 / static_cast<double>(time.runs), static_cast<double>(time.flops) / ns,
                        static_cast<double>(time.bytes) / ns, name);
  }
  return text;
}

}  // namespace runner::backends
