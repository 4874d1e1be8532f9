// The texts of text columns as tokens: one row of token ids per sample, of different lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runner/data/masking.h"
#include "runner/data/text_encoding.h"
#include "runner/text/tokenizer.h"
#include "schema/base/large_array.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

struct TokenRows {
  LargeArray<int64_t> ends;      // of each row in `ids`
  LargeArray<int32_t> ids;       // with special tokens
  LargeArray<uint8_t> segments;  // 0, or 1 for the second text of a pair
  int32_t padding_id = 0;
  int64_t truncated = 0;                     // number of rows that were cut
  std::vector<std::string> characters = {};  // the vocabulary of the tokenizer `characters`, sorted

  static auto parts(auto& self) {
    return std::tie(self.ends, self.ids, self.segments, self.padding_id, self.truncated, self.characters);
  }
  int64_t begin(int64_t row) const { return row == 0 ? 0 : ends[static_cast<size_t>(row) - 1]; }
  int64_t length(int64_t row) const { return ends[static_cast<size_t>(row)] - begin(row); }
  // Writes the tokens of a row from the `skipped`-th on, and then `rest`.
  void read(int64_t row, int64_t skipped, int64_t rest, std::span<int64_t> out) const {
    const int64_t count = std::max<int64_t>(length(row) - skipped, 0);
    std::copy_n(ids.begin() + begin(row) + skipped, count, out.begin());
    std::ranges::fill(out.subspan(static_cast<size_t>(count)), rest);
  }
};

// Numbers the characters of rows by the vocabulary `characters`. Throws Error(kData) naming `name` if a row has another
// character.
void use_characters(TokenRows& rows, const std::vector<std::string>& characters, const std::string& name);

// Returns the paths of the files of a tokenizer; none for the words characters and bytes.
std::vector<std::string> paths_of_tokenizer(const std::string& tokenizer);

// Makes rows of texts, or the ids of documents. Constant after construction, thread-safe.
class TextTokenizer {
 public:
  // Opens the tokenizer. `known`: how the texts of the run were encoded, or null. Throws Error(kData) if a file of the
  // tokenizer is missing or damaged, or differs from that of `known`.
  TextTokenizer(const schema::TokensSpec& spec, const TextEncoding* known);

  // Null for `characters`.
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  // The encoding, without the characters.
  const TextEncoding& encoding() const { return encoding_; }
  int64_t max_length() const { return spec_.max_length; }
  // Appends a row: one text, or a pair. `ends`: an end token follows unless the row has one or the text was cut. The
  // ids of characters are their code points until finish(). Throws Error(kData) for a text that is not UTF-8, and if
  // the text to be cut is too short for it.
  void add(std::span<const std::string> texts, bool ends, TokenRows& rows) const;
  // Appends the ids of documents with the end token between two of them. Throws Error(kData) if the tokenizer has no
  // end token, and for a text that is not UTF-8.
  void add_documents(std::span<const std::string_view> documents, LargeArray<uint32_t>& ids) const;
  // The size of the vocabulary of a tokenizer that is not `characters`.
  int64_t vocabulary() const { return tokenizer_->vocabulary(); }
  // The vocabulary for masking. Throws Error(kRecipe) if there is no mask token, or if words are to be masked and the
  // tokens do not tell where one begins.
  MaskVocabulary for_masking(const Masking& masking) const;
  // Call it after the last row. Returns the size of the vocabulary.
  int64_t finish(TokenRows& rows) const;

 private:
  std::vector<int32_t> encode(std::string_view text) const;

  const schema::TokensSpec spec_;
  TextEncoding encoding_;
  std::optional<text::Tokenizer> tokenizer_;  // none: characters
};

}  // namespace runner::data
