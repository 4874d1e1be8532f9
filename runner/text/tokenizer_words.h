// Words of recipes and commands that stand for tokenizers without files.
#pragma once

#include <string_view>

namespace runner::text {

inline constexpr std::string_view kCharactersWord = "characters", kBytesWord = "bytes", kIdsWord = "ids";

// Whether a tokenizer is named by the path of a folder or file, rather than by one of these words.
constexpr bool is_tokenizer_path(std::string_view tokenizer) {
  return tokenizer != kCharactersWord && tokenizer != kBytesWord && tokenizer != kIdsWord;
}

}  // namespace runner::text
