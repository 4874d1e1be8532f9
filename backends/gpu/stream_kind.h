// Streams of an emulated GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runner::backends::gpu {

// In order of priority: work that others wait for comes first.
enum class StreamKind : uint8_t { kCommunication, kCopyIn, kCopyOut, kCompute };
inline constexpr size_t kStreamCount = 4;

constexpr std::string_view name_of(StreamKind stream) {
  constexpr std::array<std::string_view, kStreamCount> kNames = {"communication", "copy in", "copy out", "compute"};
  return kNames[static_cast<size_t>(stream)];
}

}  // namespace runner::backends::gpu
