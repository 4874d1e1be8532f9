// The words, numbers, quoted texts and signs that an expression of `ls` (store/run_expression.h) is made of.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/run_expression.h"

namespace runner::store {

enum class TokenKind { kWord, kNumber, kQuoted, kSign, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // a quoted text without its quotes
  double number = 0;
  std::optional<int64_t> integer;
  Span at;

  bool is(std::string_view sign) const { return kind == TokenKind::kSign && text == sign; }
  // Keywords are written in any case; `word` in small letters.
  bool is_keyword(std::string_view word) const;
};

// The tokens of a text, the last of kind kEnd.  Throws the RecipeError that points at what is none; `option` names the
// text in it.
std::vector<Token> tokens_of(std::string_view text, const char* option);

}  // namespace runner::store
