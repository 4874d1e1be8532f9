// Philox4x32-10, a counter-based random generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011.
//
// A block of four 32-bit numbers is a pure function of a 128-bit counter and a 64-bit key, so elements of a stream can
// be computed independently and in any order. Stateless; thread-safe.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace runner::backends {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox_round(const PhiloxCounter& counter, const PhiloxKey& key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  const uint64_t product0 = kMultiplier0 * counter[0];
  const uint64_t product1 = kMultiplier1 * counter[2];
  return {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
}

inline PhiloxKey next_philox_key(const PhiloxKey& key) {
  return {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
}

inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key = next_philox_key(key);
  }
  return counter;
}

// Stream of the initial values of one parameter: element e has the block whose counter starts with e.
struct ElementStream {
  PhiloxKey key;
  uint64_t upper;  // half of the counter, from the parameter's name

  PhiloxCounter block(uint64_t element) const {
    return philox4x32({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
                       static_cast<uint32_t>(upper), static_cast<uint32_t>(upper >> 32)},
                      key);
  }
};

// Stream of the dropout mask of one sample: element e is word e % 4 of the block whose counter starts with e / 4.
// All 64 bits of the seed are used; the upper halves of epoch and sample are folded into the key.
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

// Stream of the mask of the attention weights (T, S) of one head and sample. Row t starts with block t · kBlocks, so
// the mask of a weight depends neither on T nor on S, that is, not on padding.
struct HeadDropout {
  static constexpr int64_t kBlocks = int64_t{1} << 15;                                     // of a row
  static constexpr int64_t kMostTokens = 4 * kBlocks;                                      // and keys: 2³² blocks
  static constexpr int64_t kMostHeads = int64_t{1} << 14, kMostLayers = int64_t{1} << 16;  // below TensorStream::Use

  static DropoutStream stream(DropoutStream of_sample, int64_t head) {
    of_sample.layer += static_cast<uint32_t>(head << 16);
    return of_sample;
  }
  static uint32_t block(int64_t token) { return static_cast<uint32_t>(token * kBlocks); }
  // The random word of one weight.
  static uint32_t word(DropoutStream of_sample, int64_t head, int64_t token, int64_t key) {
    return stream(of_sample, head).block(block(token) + static_cast<uint32_t>(key / 4))[static_cast<size_t>(key % 4)];
  }
};

// Stream of one random tensor. The fourth counter word identifies the distribution; its values differ from the layers
// of dropout, which are small, and from the words of the data path and of math.random.
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

// An element is dropped if its random word is below this threshold. p in [0, 1).
inline uint64_t dropout_threshold(double p) {
  return static_cast<uint64_t>(std::llround(p * 4294967296.0));
}

}  // namespace runner::backends
