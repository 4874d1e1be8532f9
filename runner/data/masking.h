// Masked language modelling, as BERT is trained: selects tokens of a sample, replaces most of them, and labels them.
//
// Each token, or with whole_word each word, is selected with a fixed probability; special tokens are never selected.
// The label of a selected token is its id; all other tokens have the label kNoLabel. Each selected token becomes the
// mask token with probability 0.8, becomes a random token of the vocabulary, which may be a special token, with
// probability 0.1, and stays otherwise. Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers",
// 2019, section 3.1; DataCollatorForLanguageModeling and DataCollatorForWholeWordMask of transformers.
//
// The result is a pure function of (seed, epoch, row of the data, position): see SampleKey. All functions are
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "runner/data/random.h"
#include "schema/base/json.h"

namespace runner::data {

// Label of a token that has none: PyTorch's default of ignore_index.
inline constexpr int64_t kNoLabel = -100;

// train.objective of type masked_lm.
struct Masking {
  double probability = 0.15;
  bool whole_word = false;

  static auto parts(auto& self) { return std::tie(self.probability, self.whole_word); }
  bool operator==(const Masking&) const = default;
  json::Object to_json() const;
  // Throws Error(kStore) if `document` was not written by to_json().
  static Masking from_json(const json::Value& document);
};

// A tokenizer's vocabulary, as masking uses it.
struct MaskVocabulary {
  enum class Kind : uint8_t {
    kWord,          // begins a word
    kContinuation,  // continues the word of the token before
    kSpecial,
  };
  int64_t mask_id = 0;
  std::vector<Kind> kinds = {};  // by id

  static auto parts(auto& self) { return std::tie(self.mask_id, self.kinds); }
};

class TokenMasker {
 public:
  TokenMasker(Masking masking, MaskVocabulary vocabulary);

  const Masking& masking() const { return masking_; }
  const MaskVocabulary& vocabulary() const { return vocabulary_; }
  // Masks a row. `tokens`: (T), its tokens, which are replaced; `labels`: (T), output.
  void apply(const SampleKey& key, int64_t row, std::span<int64_t> tokens, std::span<int64_t> labels) const;

 private:
  Masking masking_;
  MaskVocabulary vocabulary_;
  uint64_t selected_below_;  // bound for 32 random bits
};

}  // namespace runner::data
