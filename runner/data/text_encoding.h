// How the texts of text columns become tokens: data.tokens and the tokenizer. Stored in checkpoints with the Encoding,
// so that later data sets (eval, predict) get the same tokens. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/base/json.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

// A file of a tokenizer.
struct TokenizerFile {
  std::string name;    // without its folder
  std::string sha256;  // of its contents, in hex

  bool operator==(const TokenizerFile&) const = default;
};

struct TextEncoding {
  std::string tokenizer;  // characters, bytes, or the name of the folder or file
  std::vector<TokenizerFile> files = {};
  std::vector<std::string> characters = {};  // the vocabulary of the tokenizer `characters`, sorted
  schema::TokenPadding padding = schema::TokenPadding::kLongest;

  bool operator==(const TextEncoding&) const = default;
  json::Object to_json() const;
  // Throws Error(kStore) if `document` was not written by to_json().
  static TextEncoding from_json(const json::Value& document);
};

// Returns the number of tokens to which a batch is padded whose longest sample has `longest`. Buckets are the powers of
// two from 16 on, and `most`.
int64_t padded_length(schema::TokenPadding padding, int64_t longest, int64_t most);

}  // namespace runner::data
