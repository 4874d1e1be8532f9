// What both directions of the chunk format share (codec.h).  Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace runner::store {

inline constexpr std::byte kPackedValues{1}, kRawValues{2};  // first byte of a chunk
inline constexpr size_t kCrcBytes = 4;

// CRC-32 (IEEE) of what comes before it.
uint32_t chunk_crc(std::span<const std::byte> bytes);

}  // namespace runner::store
