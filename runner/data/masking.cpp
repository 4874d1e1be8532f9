#include "runner/data/masking.h"

#include <cmath>
#include <utility>

#include "schema/base/error.h"

namespace runner::data {
namespace {

// Bounds for 32 random bits, rounded.
constexpr uint64_t bits_below(double probability) {
  return (static_cast<uint64_t>(probability * 0x1p33) + 1) / 2;
}
constexpr uint64_t kMaskedBelow = bits_below(0.8), kRandomBelow = bits_below(0.9);

// A number in [0, bound) from 64 random bits; its bias is at most bound / 2^64.
int64_t scaled(uint32_t high, uint32_t low, size_t bound) {
  const uint64_t bits = uint64_t{high} << 32 | low;
  return static_cast<int64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

}  // namespace

json::Object Masking::to_json() const {
  return {{"probability", probability}, {"whole_word", whole_word}};
}

Masking Masking::from_json(const json::Value& document) {
  const json::ObjectReader object(document);
  return {.probability = object.number("probability"), .whole_word = object.boolean("whole_word")};
}

TokenMasker::TokenMasker(Masking masking, MaskVocabulary vocabulary)
    : masking_(masking), vocabulary_(std::move(vocabulary)), selected_below_(bits_below(masking.probability)) {}

void TokenMasker::apply(const SampleKey& key, int64_t row, std::span<int64_t> tokens, std::span<int64_t> labels) const {
  RUN_ASSERT(tokens.size() == labels.size());
  bool has_word = false, selected = false;  // has_word: the token before belongs to a word
  for (size_t t = 0; t < tokens.size(); ++t) {
    const MaskVocabulary::Kind kind = vocabulary_.kinds[static_cast<size_t>(tokens[t])];
    const Block bits = random_block(key.seed, Stream::kMasks, key.index(row), static_cast<uint32_t>(t));
    const bool continues = masking_.whole_word && has_word && kind == MaskVocabulary::Kind::kContinuation;
    if (!continues) selected = bits[0] < selected_below_;
    has_word = kind != MaskVocabulary::Kind::kSpecial;
    labels[t] = selected && has_word ? tokens[t] : kNoLabel;
    if (labels[t] == kNoLabel || bits[1] >= kRandomBelow) continue;
    tokens[t] = bits[1] < kMaskedBelow ? vocabulary_.mask_id : scaled(bits[2], bits[3], vocabulary_.kinds.size());
  }
}

}  // namespace runner::data
