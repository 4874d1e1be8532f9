// Text as tokens: UTF-8 characters, or bytes.
//
// Sample i consists of `sequence_length` tokens starting at token i * stride. Its labels are the tokens that follow
// each of them. Tokens after the last complete sample are not used. Characters are numbered in the order of their code
// points; the vocabulary is Encoding::class_names. The number of a byte is its value. Every fault of the file throws
// Error(kData) naming the file and the byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runner/data/storage.h"
#include "runner/formats/input.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

inline constexpr int64_t kByteTokens = 256;

// Reads the tokens of a file in order: code points, or bytes. Thread safety: none.
class TextTokens {
 public:
  explicit TextTokens(const schema::DatasetSpec& spec);

  // Returns false at the end of the file.
  bool next(uint32_t& token);
  // byte(): offset of the next token. go_to(): continues at such an offset. Both require an uncompressed file
  // (has_places()).
  bool has_places() const { return !input_.compressed(); }
  int64_t byte() const { return window_byte_ + static_cast<int64_t>(at_); }
  void go_to(int64_t byte);

 private:
  bool fill();

  const bool bytes_;
  formats::Input input_;
  std::string window_;
  size_t at_ = 0;  // position in the window
  int64_t window_byte_ = 0;
};

// Maps code points or bytes to token ids of a vocabulary.
class TokenNumbers {
 public:
  // `names`: characters, sorted; empty for bytes.
  explicit TokenNumbers(const std::vector<std::string>& names);
  // Returns the token id, or -1 if the character is not in the vocabulary.
  int64_t of(uint32_t token) const {
    if (is_bytes_) return token;
    return token < kDirect ? direct_[token] : searched(token);
  }

 private:
  static constexpr uint32_t kDirect = 0x800;  // characters of up to two UTF-8 bytes

  int64_t searched(uint32_t token) const;

  bool is_bytes_;
  std::vector<uint32_t> codes_;  // code point of each token id, ascending
  std::array<int32_t, kDirect> direct_{};
};

// Returns the number of samples in a text of `tokens` tokens.
int64_t samples_in(int64_t tokens, int64_t length, int64_t stride);
int64_t stride_of(const schema::DatasetSpec& spec);

// Reads the samples of a text file in order, as token ids.
class TextSamples {
 public:
  // `numbers` must outlive this object.
  TextSamples(const schema::DatasetSpec& spec, const TokenNumbers& numbers);

  // Advances to the next sample. Returns false at the end.
  bool next();
  // Continues with the sample that starts at offset `byte` of an uncompressed file.
  void go_to(int64_t byte);
  // sequence_length + 1 tokens; the labels are all but the first. An unknown character is -1.
  const std::vector<int64_t>& tokens() const { return window_; }

 private:
  TextTokens tokens_;
  const TokenNumbers& numbers_;
  const size_t size_;  // sequence_length + 1
  const int64_t stride_;
  bool begun_ = false;
  std::vector<int64_t> window_;
};

// Reads a whole text file into memory.
Storage read_text(const schema::DatasetSpec& spec);

// Reads a text file once and returns its description, like count_csv().
Storage count_text_samples(const schema::DatasetSpec& spec, int64_t shuffle_buffer);

// Splits off the last `fraction` of a text for evaluation. Throws Error(kRecipe) if a part would have no sample.
struct TextParts {
  Storage train, eval;
};
TextParts split_text(Storage whole, double fraction, const std::string& file);

}  // namespace runner::data
