#include "backends/gpu/torch_size_text.h"

#include <fmt/format.h>

namespace runner::backends::gpu {

std::string torch_size_text(int64_t bytes) {
  constexpr int64_t kK = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes < kK) return fmt::format("{} bytes", bytes);
  if (bytes < kK * kK) return fmt::format("{:.2f} KiB", value / kK);
  if (bytes < kK * kK * kK) return fmt::format("{:.2f} MiB", value / (kK * kK));
  return fmt::format("{:.2f} GiB", value / (kK * kK * kK));
}

}  // namespace runner::backends::gpu
