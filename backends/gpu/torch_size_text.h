// Bytes as PyTorch's memory errors print them.
#pragma once

#include <cstdint>
#include <string>

namespace runner::backends::gpu {

// "512 bytes", "1.50 KiB", "20.00 MiB", "16.00 GiB".
std::string torch_size_text(int64_t bytes);

}  // namespace runner::backends::gpu
