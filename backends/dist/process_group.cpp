#include "backends/dist/process_group.h"

#include <fmt/format.h>

namespace runner::backends {

std::string ProcessGroup::name() const {
  return fmt::format("rank {}", rank());
}

}  // namespace runner::backends
