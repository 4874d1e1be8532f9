#include "runner/train/engine/counters.h"

namespace runner::train {

int64_t Counters::updates_of(const std::string& optimizer) const {
  const auto found = updates.find(optimizer);
  return found == updates.end() ? 0 : found->second;
}

}  // namespace runner::train
