// SHA-256 (FIPS 180-4): the identity of recipes and of stored state chunks.
//
// Uses the CPU's SHA instructions where they exist (about 2 GB/s) and portable code otherwise (about 0.3 GB/s); both
// give the same digest.  A Sha256 object belongs to one thread; the functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runner {

using Sha256Digest = std::array<uint8_t, 32>;

// Incremental: update() any number of times, then finish() once.
class Sha256 {
 public:
  enum class Kernel { kFastest, kPortable };

  explicit Sha256(Kernel kernel = Kernel::kFastest);
  Sha256& update(std::span<const std::byte> data);
  Sha256& update(std::string_view text);
  // The digest of all bytes so far; the object may not be used afterwards.
  Sha256Digest finish();

 private:
  using Compress = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

  Compress compress_;
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;  // the first size_ % 64 bytes are waiting for a full block
  uint64_t size_ = 0;
};

Sha256Digest sha256(std::span<const std::byte> data);
Sha256Digest sha256(std::string_view text);

// Lower-case hexadecimal, two characters a byte.
std::string hex(std::span<const uint8_t> bytes);
std::string hex(std::span<const std::byte> bytes);

}  // namespace runner
