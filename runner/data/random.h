// Counter-based random numbers of the data path: every value is a pure function of (seed, stream, counter).
//
// The generator is Philox. Its fourth counter word identifies the stream. Dropout stores its layer number in that word,
// which never reaches these values.
#pragma once

#include <cstdint>

#include "backends/kernels/philox.h"

namespace runner::data {

// One stream per use, so that no two uses share random numbers. The values determine orders, splits, synthetic data and
// generated texts: never change them.
enum class Stream : uint32_t {
  kOrder = 0x64610001,
  kSplit = 0x64610002,
  kSyntheticRule = 0x64610003,
  kSyntheticTrain = 0x64610004,
  kSyntheticEval = 0x64610005,
  kTransform = 0x64610006,
  kBuffer = 0x64610007,
  kGeneration = 0x64610008,
  kMasks = 0x64610009,
  kAugment = 0x6461000A,
  kMixup = 0x6461000B,
};

using Block = backends::PhiloxCounter;

// Which epoch of the data is read, and with which seed. Everything that is drawn for a sample is a function of this and
// of the row of the sample in its storage: ranks, threads, batches and resuming do not change it.
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = 0;

  // The number of the row's sequence in a stream (random_block()).
  uint64_t index(int64_t row) const { return static_cast<uint64_t>(epoch) << 32 | static_cast<uint32_t>(row); }
};

// Returns block `block` of the sequence with number `index` in a stream.
inline Block random_block(uint64_t seed, Stream stream, uint64_t index, uint32_t block) {
  return backends::philox4x32(
      {block, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// A sequence of random_block(), word by word.
class RandomSequence {
 public:
  RandomSequence(uint64_t seed, Stream stream, uint64_t index) : seed_(seed), stream_(stream), index_(index) {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = random_block(seed_, stream_, index_, number_++);
      used_ = 0;
    }
    return block_[used_++];
  }

  // Uniform multiple of 2^-32 in [0, 1).
  double unit() { return next() * 0x1p-32; }

  // Unbiased uniform number in [0, bound), bound ≥ 1 (Lemire, "Fast Random Integer Generation in an Interval", 2019).
  uint32_t below(uint32_t bound) {
    uint64_t product = uint64_t{next()} * bound;
    if (static_cast<uint32_t>(product) < bound) {
      const uint32_t threshold = (0u - bound) % bound;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next()} * bound;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint64_t seed_;
  Stream stream_;
  uint64_t index_;
  uint32_t number_ = 0;
  uint32_t used_ = 4;
  Block block_{};
};

// Uniform multiple of 2^-15 in [-1, 1). A 32-bit random word yields two of them.
constexpr float symmetric(uint16_t bits) {
  return static_cast<float>(static_cast<int16_t>(bits)) * 0x1p-15f;
}

}  // namespace runner::data
