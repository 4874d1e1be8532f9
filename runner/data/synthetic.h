// Synthetic data: sample i is a pure function of (seed, section, i) and is computed when read.
//
// The seed determines a table T of random values in [-1, 1). w_j is the window of F values of T that starts at 40503 *
// j (cyclic), where F is the number of features. u is uniform noise in [-1, 1).
//   classes: the label c is drawn first; features = w_c + u. Classes are clusters around random centres.
//   targets: features = u; target k = 3 / sqrt(F) * <w_k, features>, which has mean 0 and variance 1.
// Immutable, and therefore thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "runner/data/random.h"
#include "runner/data/sample_source.h"
#include "schema/base/parts.h"

namespace runner::data {

class Synthetic : public SampleSource {
 public:
  // Exactly one of `classes` and `targets` is positive. `section`: kSyntheticTrain or kSyntheticEval.
  Synthetic(uint64_t seed, Stream section, int64_t features, int64_t classes, int64_t targets);

  void read(int64_t index, std::span<float> out) const override;  // out: (F)
  void hash(std::span<const int32_t> rows, Sha256& hash) const override;
  int64_t label(int64_t index) const;
  void targets(int64_t index, std::span<float> out) const;  // out: (number of targets)

 private:
  friend class runner::PartsAccess;

  Synthetic() = default;
  static auto parts(auto& self) {
    return std::tie(self.seed_, self.section_, self.features_, self.classes_, self.targets_, self.table_);
  }

  uint64_t seed_ = 0;
  Stream section_{};
  int64_t features_ = 0, classes_ = 0, targets_ = 0;
  std::vector<float> table_;
};

}  // namespace runner::data
