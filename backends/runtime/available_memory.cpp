#include "backends/runtime/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

#include "schema/base/error.h"

namespace runner::backends {
namespace {

constexpr size_t kUnknown = std::numeric_limits<size_t>::max();

// Allocations from this size on are checked. Linux overcommits memory and kills the process that touches too much.
constexpr size_t kLarge = size_t{64} << 20;

// Returns the number after `name` in a file of lines "NAME NUMBER …".
size_t field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  size_t number = 0;
  while (file >> word) {
    if (word == name && file >> number) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnknown;
}

// Returns the number that a file consists of; kUnknown also for "max".
size_t only_number(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  return file >> number ? number : kUnknown;
}

size_t of_machine() {
  const size_t available = field("/proc/meminfo", "MemAvailable:"), swap = field("/proc/meminfo", "SwapFree:");
  return available == kUnknown ? kUnknown : 1024 * (available + (swap == kUnknown ? 0 : swap));
}

// A control group of version 2. File cache is reclaimable and counts as free.
size_t of_control_group(const std::string& folder) {
  const size_t limit = only_number(folder + "/memory.max"), used = only_number(folder + "/memory.current");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  const size_t cached = field(folder + "/memory.stat", "inactive_file");
  const size_t taken = used - std::min(used, cached == kUnknown ? 0 : cached);
  return limit - std::min(limit, taken);
}

// The least of this process's control group and those that contain it. Inside a container, the path is "/".
size_t of_control_groups() {
  constexpr std::string_view kVersion2 = "0::";
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  while (std::getline(file, path) && !path.starts_with(kVersion2)) path.clear();
  path = path.substr(std::min(path.size(), kVersion2.size()));
  size_t least = kUnknown;
  for (; path.find('/') != path.npos; path.erase(path.rfind('/')))
    least = std::min(least, of_control_group("/sys/fs/cgroup" + path));
  return std::min(least, of_control_group("/sys/fs/cgroup"));
}

// What RLIMIT_AS (`ulimit -v`) leaves.
size_t of_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const size_t pages = only_number("/proc/self/statm");  // its first number
  if (pages == kUnknown) return kUnknown;
  const size_t used = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<size_t>(limit.rlim_cur, used);
}

}  // namespace

size_t available_memory() {
  return std::min({of_machine(), of_control_groups(), of_address_space()});
}

void check_available(size_t bytes, size_t taken) {
  if (bytes < kLarge) return;
  constexpr double kGiB = 1 << 30;
  const size_t available = available_memory();
  RUN_CHECK(bytes <= taken || bytes - taken <= available, ErrorKind::kRun,
            "out of memory: tensors need {:.1f} GiB, but this machine has {:.1f} GiB free; use a smaller model or "
            "data.batch_size",
            static_cast<double>(bytes) / kGiB, static_cast<double>(available + taken) / kGiB);
}

}  // namespace runner::backends
