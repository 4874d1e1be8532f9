// Philox4x32-10: a counter-based random generator.  Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011.
//
// A block of four 32-bit numbers is a pure function of a 128-bit counter and a 64-bit key, so that any element of any
// stream can be drawn anywhere, in any order.  No state; thread-safe.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace runner::backends {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// The stream of one sample's dropout mask: element e is word e % 4 of the block whose counter starts with e / 4.
// Seeds of 64 bits are kept whole; the upper halves of epoch and sample are folded into the key.
struct DropoutStream {
  PhiloxKey key;
  uint32_t sample, epoch, layer;

  DropoutStream(uint64_t seed, uint64_t epoch64, uint64_t sample64, uint32_t layer_)
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^
                                             (static_cast<uint32_t>(epoch64 >> 32) * 0x85EBCA6Bu) ^
                                             (static_cast<uint32_t>(sample64 >> 32) * 0xC2B2AE35u)},
        sample(static_cast<uint32_t>(sample64)),
        epoch(static_cast<uint32_t>(epoch64)),
        layer(layer_) {}

  PhiloxCounter block(uint32_t index) const { return philox4x32({index, sample, epoch, layer}, key); }
};

// The stream of one random tensor: the fourth counter word names the distribution, apart from dropout's layers, which
// are small, and from the words that the data path and math.random have.
struct TensorStream {
  enum class Use : uint32_t { kUniform = 0x72616e01, kNormal = 0x72616e02 };

  PhiloxKey key;
  uint32_t draw, stream;
  Use use;

  TensorStream(uint64_t seed, uint64_t draw64, uint32_t stream_, Use use_)
      : key{static_cast<uint32_t>(seed),
            static_cast<uint32_t>(seed >> 32) ^ (static_cast<uint32_t>(draw64 >> 32) * 0x85EBCA6Bu)},
        draw(static_cast<uint32_t>(draw64)),
        stream(stream_),
        use(use_) {}

  PhiloxCounter block(uint32_t index) const {
    return philox4x32({index, draw, stream, static_cast<uint32_t>(use)}, key);
  }
};

// An element is dropped when its random word is below this.  p in [0, 1).
inline uint64_t dropout_threshold(double p) {
  return static_cast<uint64_t>(std::llround(p * 4294967296.0));
}

}  // namespace runner::backends
