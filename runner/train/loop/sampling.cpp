#include "runner/train/loop/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/data/random.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// A uniform number in [0, 1) with 53 random bits.
double uniform(uint64_t seed, int64_t index) {
  const data::Block bits = data::random_block(seed, data::Stream::kGeneration, static_cast<uint64_t>(index), 0);
  return static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
}

// Returns the largest logit.
float checked(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan = has_nan || std::isnan(logit);
    largest = std::max(largest, logit);
  }
  RUN_CHECK(!has_nan && std::isfinite(largest), ErrorKind::kRun,
            "the model's logits of the next token are not finite; its training may have diverged");
  return largest;
}

bool is_likelier(const TokenChance& a, const TokenChance& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

// `chances`: all tokens. The weight of a token is its logit as long as tokens are compared, because exp() of different
// logits may be equal.
void keep_top_k(std::vector<TokenChance>& chances, int64_t k) {
  if (k >= std::ssize(chances)) return;
  std::nth_element(chances.begin(), chances.begin() + k, chances.end(), is_likelier);
  chances.resize(static_cast<size_t>(k));
}

void use_exponentials(std::vector<TokenChance>& chances, double largest, double temperature) {
  for (TokenChance& chance : chances) chance.weight = std::exp((chance.weight - largest) / temperature);
}

double sum_of(const std::vector<TokenChance>& chances) {
  double sum = 0;
  for (const TokenChance& chance : chances) sum += chance.weight;
  return sum;
}

// `chances`: the most likely first.
void keep_top_p(std::vector<TokenChance>& chances, double p) {
  const double total = sum_of(chances);
  double before = 0;
  size_t kept = 0;
  for (; kept < chances.size() && (kept == 0 || before < p * total); ++kept) before += chances[kept].weight;
  chances.resize(kept);
}

}  // namespace

std::vector<TokenChance> token_chances(std::span<const float> logits, const Sampling& sampling) {
  const double largest = checked(logits);
  std::vector<TokenChance> chances;
  chances.reserve(logits.size());
  for (size_t token = 0; token < logits.size(); ++token)
    chances.push_back({static_cast<int32_t>(token), double{logits[token]}});
  if (sampling.temperature == 0) {
    keep_top_k(chances, 1);
    chances.front().weight = 1;
    return chances;
  }
  if (sampling.top_k) keep_top_k(chances, *sampling.top_k);
  const bool has_top_p = sampling.top_p < 1;
  if (has_top_p) std::ranges::sort(chances, is_likelier);
  use_exponentials(chances, largest, sampling.temperature);
  if (has_top_p) keep_top_p(chances, sampling.top_p);
  if (sampling.top_k || has_top_p) std::ranges::sort(chances, {}, &TokenChance::token);  // others are in order
  return chances;
}

int32_t choose_token(std::span<const float> logits, const Sampling& sampling, uint64_t seed, int64_t index) {
  const std::vector<TokenChance> chances = token_chances(logits, sampling);
  const double limit = uniform(seed, index) * sum_of(chances);
  double before = 0;
  for (const TokenChance& chance : chances) {
    before += chance.weight;
    if (before > limit) return chance.token;
  }
  return chances.back().token;  // the sums have been rounded
}

}  // namespace runner::train
