// Texts as the tokens of a language model, and back. Constant after construction; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/text/tokenizer.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

class TextCodec {
 public:
  // `encoding`: of data whose labels are the next tokens. `data`: their section of the recipe. Throws Error(kData) if
  // the files of the tokenizer are missing, damaged, or have changed.
  TextCodec(const Encoding& encoding, const schema::DataSpec& data);

  // Null if the data are token ids; a text is then a list of ids, "1 2 3".
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  // The token that ends a text; none without one.
  std::optional<int32_t> end_token() const { return tokenizer_ ? tokenizer_->end_token() : std::nullopt; }

  // Returns the tokens of a text to continue, as a sample begins with them. There is at least one: the end token, if
  // the text and the special tokens before it are empty. Throws Error(kUsage) if there is no such token, and
  // Error(kData) if the text has a character that the model does not know, or something else than ids.
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  std::vector<int32_t> ids_of(std::string_view text) const;

  const int64_t vocabulary_;
  const bool are_rows_;  // whether samples begin with special tokens of the tokenizer
  std::optional<text::Tokenizer> tokenizer_;
};

}  // namespace runner::data
