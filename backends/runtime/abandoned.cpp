#include "backends/runtime/abandoned.h"

#include <mutex>
#include <utility>

namespace runner::backends {
namespace {

struct Abandoned {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> used;
  std::vector<std::string> texts;
};

// Never destroyed.
Abandoned& all_abandoned() {
  static auto* const all = new Abandoned;
  return *all;
}

}  // namespace

void abandon(std::shared_ptr<void> used, std::string text) {
  Abandoned& all = all_abandoned();
  const std::lock_guard lock(all.mutex);
  all.used.push_back(std::move(used));
  all.texts.push_back(std::move(text));
}

std::vector<std::string> abandoned() {
  Abandoned& all = all_abandoned();
  const std::lock_guard lock(all.mutex);
  return all.texts;
}

}  // namespace runner::backends
