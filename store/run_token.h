// Tokens of the expressions of `ls` (store/run_expression.h). Thread-safe: pure functions.
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
  std::string text;  // without the quotes if quoted
  double number = 0;
  std::optional<int64_t> integer;
  TextSpan at;

  bool is(std::string_view sign) const { return kind == TokenKind::kSign && text == sign; }
  // Keywords are case-insensitive. `word`: in lower case.
  bool is_keyword(std::string_view word) const;
};

// Returns the tokens of a text; the last one has kind kEnd. Throws a RecipeError that points at an invalid token.
// `option`: name of the text in messages.
std::vector<Token> tokens_of(std::string_view text, const char* option);

}  // namespace runner::store
