// Samples by rule: sample i is a pure function of (seed, section, i), made when read; nothing but the rule is stored.
//
// The rule is a table T of random values in [-1, 1), drawn from the seed; w_j is its window of F values at 40503 * j
// (cyclic), F being the features of a sample, and u is uniform noise in [-1, 1).
//   classes: the label c is drawn first; features = w_c + u.  Classes are blobs around random centres.
//   targets: features = u; target k = 3 / sqrt(F) * <w_k, features>, of mean 0 and variance 1.
// Immutable, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/data/random.h"

namespace runner::data {

class Synthetic {
 public:
  // Exactly one of classes and targets is positive.  section: kSyntheticTrain or kSyntheticEval.
  Synthetic(uint64_t seed, Stream section, int64_t features, int64_t classes, int64_t targets);

  void features(int64_t index, std::span<float> out) const;  // out: (F)
  int64_t label(int64_t index) const;
  void targets(int64_t index, std::span<float> out) const;  // out: (K)

  // All that the samples depend on, for fingerprints.
  std::string to_string() const;

 private:
  uint64_t seed_;
  Stream section_;
  int64_t features_;
  int64_t classes_;
  int64_t targets_;
  std::vector<float> table_;
};

}  // namespace runner::data
