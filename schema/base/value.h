// A typed value of a recipe field, and of JSON documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace runner::schema {

struct Value;
using ValueList = std::vector<Value>;
using ValueMap = std::vector<std::pair<std::string, Value>>;  // in the order written

struct Value : std::variant<std::monostate, bool, int64_t, double, std::string, ValueList, ValueMap> {
  using variant::variant;

  // Defined in value.cpp, because each use would instantiate the whole variant.
  Value();
  ~Value();
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  friend bool operator==(const Value& a, const Value& b);

  bool is_null() const { return index() == 0; }
  const bool* boolean() const { return std::get_if<bool>(this); }
  const int64_t* integer() const { return std::get_if<int64_t>(this); }
  const double* number() const { return std::get_if<double>(this); }
  const std::string* text() const { return std::get_if<std::string>(this); }
  const ValueList* list() const { return std::get_if<ValueList>(this); }
  const ValueMap* map() const { return std::get_if<ValueMap>(this); }

  template <class Visitor>
  auto visit(const Visitor& visitor) const {
    return std::visit(visitor, static_cast<const variant&>(*this));
  }
};

// A plain (unquoted) YAML scalar by the core schema of YAML 1.2, without octal and hexadecimal numbers.
struct PlainScalar {
  Value value;                // null, bool, int64, double or text
  bool leading_zero = false;  // 010, -01.5: value is text
  bool too_large = false;     // an integer beyond 64 bits: value is a double
  bool not_finite = false;    // .inf, .nan and numbers beyond a double: value is text
  bool too_small = false;     // a number other than 0 that a double rounds to 0: value is 0
};
PlainScalar read_plain_scalar(std::string_view text);

// Returns the shortest text that reads back as the same number: "0.001", "1e-08", "3".
std::string number_text(double number);

// Returns text for messages and tables: texts without quotes, other values as canonical_text().
std::string display_text(const Value& value);

// Returns the canonical text: null, true, 3, 0.001, "text" (JSON's quoting), [1, 2], {a: 1}. Equal values give equal
// texts.
std::string canonical_text(const Value& value);

}  // namespace runner::schema
