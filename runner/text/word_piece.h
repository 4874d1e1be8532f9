// BERT's tokenizer: a normalizer, a splitter into words and punctuation, and WordPiece. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/text/token_trie.h"

namespace runner::text {

// Source: google-research/bert, tokenization.py; normalizers/bert.rs of Hugging Face's tokenizers, in whose order the
// steps are.
struct BertNormalizer {
  bool clean_text = false;            // remove controls, make white space blanks
  bool handle_chinese_chars = false;  // blanks around CJK characters
  bool strip_accents = false;         // NFD without marks
  bool lowercase = false;

  // `text`: UTF-8.
  std::string operator()(std::string_view text) const;
  bool operator==(const BertNormalizer&) const = default;
};

struct WordPieceOptions {
  std::string unknown_token = "[UNK]", prefix = "##";  // `prefix`: of pieces that continue a word
  int64_t longest_word = 100;                          // characters; a longer word is unknown
};

class WordPiece {
 public:
  // `tokens`: by id. Throws Error(kData) if the unknown token is missing.
  WordPiece(std::span<const std::string> tokens, WordPieceOptions options);

  // Appends the ids of a normalized text.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  const std::string& prefix() const { return options_.prefix; }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  WordPieceOptions options_;
  TokenTrie beginnings_, continuations_;
  int32_t unknown_;
};

}  // namespace runner::text
