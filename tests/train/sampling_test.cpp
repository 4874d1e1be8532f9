// The choice of the next token, against transformers' logits processors and plain references.
#include "runner/train/loop/sampling.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "runner/data/random.h"
#include "schema/base/error.h"
#include "tests/golden/golden.h"

namespace runner::train {
namespace {

std::map<int32_t, double> probabilities(std::span<const float> logits, const Sampling& sampling) {
  std::map<int32_t, double> all;
  double sum = 0;
  for (const TokenChance& chance : token_chances(logits, sampling)) sum += chance.weight;
  for (const TokenChance& chance : token_chances(logits, sampling)) all[chance.token] = chance.weight / sum;
  return all;
}

std::vector<int32_t> tokens(std::span<const float> logits, const Sampling& sampling) {
  std::vector<int32_t> all;
  for (const TokenChance& chance : token_chances(logits, sampling)) all.push_back(chance.token);
  return all;
}

TEST(TokenChances, AreThoseOfTransformers) {
  for (const testing::Golden& item : testing::Golden::load("generation.json").cases()) {
    SCOPED_TRACE(item.name());
    Sampling sampling{.temperature = item["temperature"].number(), .top_p = item["top_p"].number()};
    if (item.has("top_k")) sampling.top_k = item["top_k"].integer();
    const std::vector<float> logits = item["logits"].tensor().as<float>();
    const std::vector<double> want = item["probabilities"].tensor().as<double>();
    const std::map<int32_t, double> got = probabilities(logits, sampling);
    for (int32_t token = 0; token < std::ssize(want); ++token) {
      const double expected = want[static_cast<size_t>(token)];
      ASSERT_EQ(got.contains(token), expected > 0) << token;
      if (expected == 0) continue;
      EXPECT_NEAR(got.at(token), expected, 1e-12) << token;
    }
  }
}

// Probabilities 0.5, 0.3, 0.15, 0.05: a token is kept while the sum before it is below p.
TEST(TokenChances, TopPKeepsTheTokenThatReachesP) {
  std::vector<float> logits;
  for (const double p : {0.05, 0.5, 0.15, 0.3}) logits.push_back(static_cast<float>(std::log(p)));
  const auto kept = [&](double p) { return tokens(logits, {.top_p = p}); };
  EXPECT_EQ(kept(0.1), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept(1e-300), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept(0.6), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept(0.79), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept(0.9), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(kept(0.96), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept(1), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(TokenChances, OfEqualLogitsTheLowerIdIsLikelier) {
  const std::array<float, 5> logits{1, 2, 2, 2, 0};
  EXPECT_EQ(tokens(logits, {.top_k = 2}), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokens(logits, {.temperature = 0}), (std::vector<int32_t>{1}));
  EXPECT_EQ(tokens(logits, {.top_p = 0.5}), (std::vector<int32_t>{1, 2}));
}

// Four tokens of probability 1/4: the sums before them are 0, 1/4, 1/2 and 3/4, without rounding.
TEST(TokenChances, TopPLeavesOutATokenIfTheSumBeforeItIsExactlyP) {
  const std::array<float, 4> logits{3, 3, 3, 3};
  EXPECT_EQ(tokens(logits, {.top_p = 0.25}), (std::vector<int32_t>{0}));
  EXPECT_EQ(tokens(logits, {.top_p = 0.5}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(tokens(logits, {.top_p = std::nextafter(0.5, 1)}), (std::vector<int32_t>{0, 1, 2}));
}

TEST(TokenChances, ExtremeTemperaturesAreFinite) {
  const std::array<float, 3> logits{1, 1.5F, -std::numeric_limits<float>::infinity()};
  const std::map<int32_t, double> cold = probabilities(logits, {.temperature = 1e-300});
  EXPECT_EQ(cold.at(0), 0);
  EXPECT_EQ(cold.at(1), 1);
  EXPECT_EQ(cold.at(2), 0);
  EXPECT_NEAR(probabilities(logits, {.temperature = 1e300}).at(0), 0.5, 1e-12);
}

TEST(TokenChances, RefusesLogitsThatAreNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::array<float, 2>& logits :
       {std::array{NAN, 1.0F}, std::array{1.0F, NAN}, std::array{kInf, 1.0F}, std::array{-kInf, -kInf}})
    for (const double temperature : {0.0, 1.0}) try {
        token_chances(logits, {.temperature = temperature});
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kRun);
        EXPECT_EQ(error.message(),
                  "the model's logits of the next token are not finite; its training may have diverged");
      }
}

// The first token whose sum of probabilities exceeds the number that the generator gives for the seed and the index.
TEST(ChooseToken, DrawsFromTheProjectsGenerator) {
  std::vector<float> logits(10, 0.25F);
  std::vector<int32_t> drawn;
  for (int64_t index = 0; index < 200; ++index) {
    const data::Block bits = data::random_block(7, data::Stream::kGeneration, static_cast<uint64_t>(index), 0);
    const double u = std::ldexp(static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11), -53);
    drawn.push_back(choose_token(logits, {}, 7, index));
    EXPECT_EQ(drawn.back(), static_cast<int32_t>(u * 10)) << index;
  }
  const std::vector<int32_t> first(drawn.begin(), drawn.begin() + 12);
  EXPECT_EQ(first, (std::vector<int32_t>{4, 0, 9, 8, 7, 0, 9, 3, 3, 8, 0, 8}));  // never changes
}

TEST(ChooseToken, FrequenciesAreTheProbabilities) {
  const std::array<float, 6> logits{0.5F, -1, 2, 1.25F, -3, 0};
  const Sampling sampling{.temperature = 1.5, .top_k = 5, .top_p = 0.9};
  const std::map<int32_t, double> expected = probabilities(logits, sampling);
  ASSERT_EQ(expected.size(), 4);
  constexpr int kDraws = 40'000;
  std::map<int32_t, int> count;
  for (int i = 0; i < kDraws; ++i) ++count[choose_token(logits, sampling, 3, i)];
  EXPECT_EQ(count.size(), expected.size());
  for (const auto& [token, p] : expected)
    EXPECT_NEAR(count[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
}

}  // namespace
}  // namespace runner::train
