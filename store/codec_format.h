// Parts of the chunk format that the encoder and the decoder share (codec.h). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace runner::store {

inline constexpr std::byte kPackedValues{1}, kRawValues{2};  // first byte of a chunk: encoding of the values
inline constexpr size_t kCrcBytes = 4;

// CRC-32 (IEEE 802.3) of `bytes`, which are all bytes of a chunk before its checksum.
uint32_t chunk_crc(std::span<const std::byte> bytes);

}  // namespace runner::store
