// How much of the gradients a device loses when it adds them up over the batches of an optimizer step in bf16.
//
// A bf16 has 8 significant bits. A sum of equal gradients is exact at best up to 256 of them, and then stops growing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/ir/program.h"

namespace runner::train {

// An addition to an accumulated gradient: sum = held + added, f32, of one shape.
struct GradientAddition {
  backends::ValueId held, added, sum;
};

// Adds two outputs to a Program, () f32: by how much the magnitudes of the sums grow too little, and Σ |added|. Returns
// the index of the first. `additions`: at least one.
int output_lost_gradient(backends::Program& program, std::span<const GradientAddition> additions);

// Largest number of equal gradients that bf16 adds up without loss: their sum has no more significant bits than they.
inline constexpr int64_t kMaxEqualInBf16 = 256;

// Sum of these outputs over a run, of one rank.
class LostGradient {
 public:
  void add(double lost, double all);
  void operator+=(const LostGradient& other) { add(other.lost_, other.all_); }
  // Returns a warning if a noticeable part was lost.
  std::optional<std::string> warning() const;

 private:
  double lost_ = 0, all_ = 0;
};

}  // namespace runner::train
