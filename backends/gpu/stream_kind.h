// The streams that every emulated GPU has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runner::backends::gpu {

// In the order in which the device looks at them: what others wait for comes first.
enum class StreamKind : uint8_t { kCommunication, kCopyIn, kCopyOut, kCompute };
inline constexpr size_t kStreamCount = 4;

constexpr std::string_view name_of(StreamKind stream) {
  constexpr std::array<std::string_view, kStreamCount> kNames = {"communication", "copy in", "copy out", "compute"};
  return kNames[static_cast<size_t>(stream)];
}

}  // namespace runner::backends::gpu
