// Chooses the next token of a text from the logits of a model: temperature, top-k, top-p, and a random draw.
//
// A pure function of its arguments. Sums are in f64 over the tokens in the order of their ids, so that the choice is
// the same on each machine for the same logits. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace runner::train {

struct Sampling {
  double temperature = 1;             // divides the logits; 0: takes the most likely token
  std::optional<int64_t> top_k = {};  // only the k most likely tokens; none, or more than there are: all
  double top_p = 1;                   // only the most likely tokens, each while the sum before it is below p
};

struct TokenChance {
  int32_t token;
  double weight;  // relative to the sum over the tokens
};

// Returns the tokens that may be chosen, in the order of their ids. Of equal logits, the lower id is more likely. The
// order of the restrictions is that of transformers: temperature, top-k, top-p. Throws Error(kRun) if a logit is NaN or
// +inf, or all are −inf.
std::vector<TokenChance> token_chances(std::span<const float> logits, const Sampling& sampling);

// Returns token `index` of a text with this seed.
int32_t choose_token(std::span<const float> logits, const Sampling& sampling, uint64_t seed, int64_t index);

}  // namespace runner::train
