// Text as tokens: characters of UTF-8, or bytes.
//
// Sample i is `sequence_length` tokens from token i * stride on; its labels are the token behind each of them.  What is
// left behind the last whole sample is no part of any.  Characters are numbered as their code points are sorted, so a
// vocabulary is Encoding::class_names; bytes are their own numbers.  Every fault of the file is an Error(kData) that
// names file and byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/storage.h"
#include "runner/formats/input.h"
#include "schema/recipe.h"

namespace runner::data {

inline constexpr int64_t kByteTokens = 256;

// The tokens of a file in turn, as they stand there: code points, or bytes.  One thread.
class TextTokens {
 public:
  explicit TextTokens(const schema::DatasetSpec& spec);

  // False at the end.
  bool next(uint32_t& token);
  // Where the next token starts, and to go on there, in a file that is not compressed.
  bool has_places() const { return !input_.compressed(); }
  int64_t byte() const { return window_byte_ + static_cast<int64_t>(at_); }
  void go_to(int64_t byte);

 private:
  bool fill();

  const bool bytes_;
  formats::Input input_;
  std::string window_;
  size_t at_ = 0;  // in the window
  int64_t window_byte_ = 0;
};

// From what stands in a file to numbers of tokens, for a vocabulary.
class TokenNumbers {
 public:
  // names: of the characters, sorted; empty: bytes.
  explicit TokenNumbers(const std::vector<std::string>& names);
  // -1 for a character that is not among them.
  int64_t of(uint32_t token) const {
    if (is_bytes_) return token;
    return token < kDirect ? direct_[token] : searched(token);
  }

 private:
  static constexpr uint32_t kDirect = 0x800;  // characters of one and two bytes

  int64_t searched(uint32_t token) const;

  bool is_bytes_;
  std::vector<uint32_t> codes_;  // by number, which sorts them
  std::array<int32_t, kDirect> direct_{};
};

// Samples in a text of so many tokens.
int64_t samples_in(int64_t tokens, int64_t length, int64_t stride);
int64_t stride_of(const schema::DatasetSpec& spec);

// The samples of a text file from `first` on, in turn, as numbers of tokens.
class TextSamples {
 public:
  // numbers must outlive this.
  TextSamples(const schema::DatasetSpec& spec, const TokenNumbers& numbers);

  // To the next sample; false at the end.
  bool next();
  // As if the sample before this one had been read: it starts at `byte`, in a file that is not compressed.
  void go_to(int64_t byte);
  // sequence_length + 1 tokens: the labels are all but the first.  A character that has no number is -1.
  const std::vector<int64_t>& tokens() const { return window_; }

 private:
  TextTokens tokens_;
  const TokenNumbers& numbers_;
  const size_t size_;  // of the window when it is whole
  const int64_t stride_;
  bool begun_ = false;
  std::vector<int64_t> window_;
};

// Reads a whole file.
Storage read_text(const schema::DatasetSpec& spec);

// Reads the file once and keeps what it is, as count_csv() does.
Storage count_text(const schema::DatasetSpec& spec, int64_t shuffle_buffer);

// Cuts the last `fraction` of a text off, as long as both parts hold a sample (Error(kRecipe)).
struct TextParts {
  Storage train, eval;
};
TextParts split_text(Storage whole, double fraction, const std::string& file);

}  // namespace runner::data
