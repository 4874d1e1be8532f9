// Formats sizes like PyTorch's memory errors.
#pragma once

#include <cstdint>
#include <string>

namespace runner::backends::gpu {

// Examples: "512 bytes", "1.50 KiB", "20.00 MiB", "16.00 GiB".
std::string torch_size_text(int64_t bytes);

}  // namespace runner::backends::gpu
