#include "schema/base/value.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace runner::schema {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the length of the run of digits at text[at].
size_t digits(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

// [-+]? (digits [. digits?]? | . digits) ([eE] [-+]? digits)? ; integer: no dot and no exponent.
struct NumberShape {
  bool number = false;
  bool integer = false;
  bool leading_zero = false;
};

NumberShape shape_of(std::string_view text) {
  size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const size_t whole = digits(text, at);
  NumberShape shape;
  shape.leading_zero = whole > 1 && text[at] == '0';
  at += whole;
  size_t fraction = 0;
  const bool dot = at < text.size() && text[at] == '.';
  if (dot) {
    fraction = digits(text, at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) return {};
  bool exponent = false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    exponent = true;
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t length = digits(text, at);
    if (length == 0) return {};
    at += length;
  }
  shape.number = at == text.size();
  shape.integer = !dot && !exponent;
  return shape;
}

bool is_word_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (text == word) return true;
  return false;
}

bool is_infinity_or_nan(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return is_word_of(text, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"});
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

struct CanonicalText {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  std::string operator()(const ValueList& items) const {
    std::string out = "[";
    for (const Value& item : items) out += (out.size() > 1 ? ", " : "") + canonical_text(item);
    return out + ']';
  }
  std::string operator()(const ValueMap& members) const {
    std::string out = "{";
    for (const auto& [key, value] : members) {
      out += (out.size() > 1 ? ", " : "") + in_quotes(key) + ": " + canonical_text(value);
    }
    return out + '}';
  }
};

}  // namespace

Value::Value() = default;
Value::~Value() = default;
// Not defaulted: when the copy of an alternative throws, the copy constructor of std::variant in libstdc++ 12 destroys
// an alternative with a number of -1, if each alternative is a standard container or trivial.
Value::Value(const Value& other) : Value() {
  *this = other;
}
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;

bool operator==(const Value& a, const Value& b) {
  using Variant = Value::variant;
  return static_cast<const Variant&>(a) == static_cast<const Variant&>(b);
}

PlainScalar read_plain_scalar(std::string_view text) {
  if (text.empty() || is_word_of(text, {"~", "null", "Null", "NULL"})) return {};
  if (is_word_of(text, {"true", "True", "TRUE"})) return {true};
  if (is_word_of(text, {"false", "False", "FALSE"})) return {false};
  PlainScalar scalar{std::string(text)};
  scalar.not_finite = is_infinity_or_nan(text);
  const NumberShape shape = shape_of(text);
  scalar.leading_zero = shape.number && shape.leading_zero;
  if (!shape.number || shape.leading_zero) return scalar;

  const std::string_view unsigned_text = text.substr(text[0] == '+' ? 1 : 0);
  const char* end = unsigned_text.data() + unsigned_text.size();
  int64_t integer = 0;
  if (shape.integer && std::from_chars(unsigned_text.data(), end, integer).ec == std::errc()) return {integer};
  double number = 0;
  // from_chars does not say whether a number is too large or too small to represent; strtod gives infinity or 0.
  if (std::from_chars(unsigned_text.data(), end, number).ec != std::errc()) {
    number = std::strtod(std::string(unsigned_text).c_str(), nullptr);
  }
  scalar.not_finite = std::isinf(number);
  if (scalar.not_finite) return scalar;
  scalar.too_large = shape.integer;
  const std::string_view digits = text.substr(0, text.find_first_of("eE"));
  scalar.too_small = number == 0 && digits.find_first_of("123456789") != std::string_view::npos;
  scalar.value = number;
  return scalar;
}

std::string number_text(double number) {
  return fmt::format("{}", number == 0 ? 0.0 : number);
}

std::string display_text(const Value& value) {
  return value.text() != nullptr ? *value.text() : canonical_text(value);
}

std::string canonical_text(const Value& value) {
  return value.visit(CanonicalText{});
}

}  // namespace runner::schema
