#include "store/run_token.h"

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::store {
namespace {

// Bytes of paths, metric names, dates and patterns, and all non-ASCII UTF-8.
bool is_token_byte(char c) {
  constexpr std::string_view kOthers = "./:@+-[]*?%#$";
  return is_word_byte(c) || static_cast<unsigned char>(c) >= 0x80 || kOthers.find(c) != std::string_view::npos;
}

class Lexer {
 public:
  Lexer(std::string_view text, const char* option) : text_(text), option_(option) {}

  std::vector<Token> tokens() {
    check_bytes();
    std::vector<Token> tokens;
    do {
      while (at_ < text_.size() && text_[at_] == ' ') step(1);
      tokens.push_back(next());
    } while (tokens.back().kind != TokenKind::kEnd);
    return tokens;
  }

 private:
  void check_bytes() const {
    int column = 0;
    for (size_t at = 0; at < text_.size(); ++column) {
      const size_t length = utf8_length(text_, at);
      const auto byte = static_cast<unsigned char>(text_[at]);
      if (length == 0) fail_at({}, option_, {column, 1}, "the expression is not UTF-8", "write it in UTF-8");
      if (byte < 0x20 || byte == 0x7F) {
        fail_at({}, option_, {column, 1}, "the expression contains a control character", "write it on one line");
      }
      at += length;
    }
  }

  // Advances by `bytes` bytes.
  void step(size_t bytes) {
    for (const size_t end = at_ + bytes; at_ < end; ++at_)
      column_ += (static_cast<unsigned char>(text_[at_]) & 0xC0) != 0x80;
  }

  Token next() {
    Token token;
    token.at = {column_, 1};
    if (at_ == text_.size()) return token;
    const char first = text_[at_];
    if (first == '"' || first == '\'') return quoted(std::move(token), first);
    return is_token_byte(first) ? word(std::move(token)) : sign(std::move(token));
  }

  Token quoted(Token token, char quote) {
    const size_t begin = at_ + 1, end = text_.find(quote, begin);
    if (end == std::string_view::npos) {
      fail_at(text_, option_, token.at, "the quote is never closed", fmt::format("add {} at the end", quote));
    }
    step(end + 1 - at_);
    token.kind = TokenKind::kQuoted;
    token.text = std::string(text_.substr(begin, end - begin));
    token.at.width = column_ - token.at.begin;
    return token;
  }

  Token word(Token token) {
    size_t end = at_;
    while (end < text_.size() && is_token_byte(text_[end])) ++end;
    token.text = std::string(text_.substr(at_, end - at_));
    step(end - at_);
    token.at.width = column_ - token.at.begin;
    token.kind = TokenKind::kWord;
    read_number(token);
    return token;
  }

  static void read_number(Token& token) {
    std::string_view digits = token.text;
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const size_t first = digits.find_first_not_of('-');
    if (first == std::string_view::npos ||
        !(std::isdigit(static_cast<unsigned char>(digits[first])) || digits[first] == '.'))
      return;
    const char* end = digits.data() + digits.size();
    int64_t integer = 0;
    if (const auto whole = std::from_chars(digits.data(), end, integer); whole.ec == std::errc() && whole.ptr == end)
      token.integer = integer;
    const auto [stop, error] = std::from_chars(digits.data(), end, token.number);
    if (error == std::errc() && stop == end) token.kind = TokenKind::kNumber;
  }

  Token sign(Token token) {
    constexpr std::array<std::string_view, 14> kSigns{"==", "!=", "<>", "<=", ">=", "&&", "||",
                                                      "=",  "<",  ">",  "(",  ")",  ",",  "~"};
    for (const std::string_view sign : kSigns) {
      if (!text_.substr(at_).starts_with(sign)) continue;
      if (sign == "&&" || sign == "||") {
        fail_at(text_, option_, {column_, 2}, fmt::format("unknown operator {}", sign),
                sign == "&&" ? "use and" : "use or");
      }
      step(sign.size());
      token.kind = TokenKind::kSign;
      token.text = std::string(sign);
      token.at.width = static_cast<int>(sign.size());
      return token;
    }
    const std::string hint = text_[at_] == '!' ? "use not" : "put quotes around texts";
    fail_at(text_, option_, token.at, fmt::format("unexpected {}", text_[at_]), hint);
  }

  std::string_view text_;
  const char* option_;
  size_t at_ = 0;
  int column_ = 0;
};

}  // namespace

bool Token::is_keyword(std::string_view word) const {
  return kind == TokenKind::kWord && lower_case(text) == word;
}

std::vector<Token> tokens_of(std::string_view text, const char* option) {
  return Lexer(text, option).tokens();
}

}  // namespace runner::store
