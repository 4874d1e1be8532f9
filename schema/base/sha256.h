// SHA-256 (FIPS 180-4), used to identify recipes and stored chunks of checkpoints.
//
// Uses the CPU's SHA instructions if available (about 2 GB/s), else portable code (about 0.3 GB/s), with the same
// digest. A Sha256 object is not thread-safe; the functions are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runner {

using Sha256Digest = std::array<uint8_t, 32>;

// Incremental hash: call update() any number of times, then finish() once.
class Sha256 {
 public:
  enum class Kernel { kFastest, kPortable };

  explicit Sha256(Kernel kernel = Kernel::kFastest);
  Sha256& update(std::span<const std::byte> data);
  Sha256& update(std::string_view text);
  // Returns the digest. The object must not be used afterwards.
  Sha256Digest finish();

 private:
  using Compress = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

  Compress compress_;
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;  // the first size_ % 64 bytes wait for a full block
  uint64_t size_ = 0;
};

Sha256Digest sha256(std::span<const std::byte> data);
Sha256Digest sha256(std::string_view text);

// Returns lower-case hexadecimal, two characters per byte.
std::string hex(std::span<const uint8_t> bytes);
std::string hex(std::span<const std::byte> bytes);

}  // namespace runner
