// JSON documents as values, and their text, for the output of commands and the store's records.
//
// The functions are thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "schema/base/value.h"

namespace runner::json {

using Value = schema::Value;
using List = schema::ValueList;
using Object = schema::ValueMap;

// Returns the document as text: objects indented by two, one list element per line. NaN and infinities become null.
// Bytes that are not UTF-8 are replaced, so that the document is always valid. Ends with a newline.
std::string text(const Value& document);
// As text() for a list of `count` elements. Creates the elements one by one, so that they are never all in memory.
std::string list_text(size_t count, const std::function<Value(size_t)>& element);
// line(): the document on one line. compact(): the same without the newline, for use within other texts.
std::string line(const Value& document);
std::string compact(const Value& document);

// Returns null if the text is not JSON, or is nested more than 200 levels deep. Keeps duplicate members.
Value parse(std::string_view text);

// Returns the members of an object; none for any other value.
const Object& members_of(const Value& value);
// Returns the elements of a list; none for any other value.
const List& elements_of(const Value& value);

// Returns the first member of this name; null if there is none, or the value is no object.
const Value& member(const Value& object, std::string_view name);

// Return the value as a type; nullopt or "" if it is of another one. number_of: also of an integer.
std::optional<int64_t> integer_of(const Value& value);
std::optional<double> number_of(const Value& value);
std::string text_of(const Value& value);

// Reads the members of an object that a program wrote. Throws Error(kStore) if a member is missing or is of another
// type, with the member's name and what was found. The value must outlive the reader.
class ObjectReader {
 public:
  explicit ObjectReader(const Value& object);

  const Value* find(std::string_view key) const;  // null if the object has no such member
  const Value& at(std::string_view key) const;

  bool boolean(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;  // of a member that may be missing
  double number(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;

 private:
  const Object& members_;
};

// Returns null for an empty text or a missing value.
inline Value or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}
template <class T>
Value or_null(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

// Returns a list of `convert(item)`.
template <class Items, class Convert>
List list_of(const Items& items, Convert convert) {
  List list;
  for (const auto& item : items) list.push_back(convert(item));
  return list;
}
template <class Items>
List list_of(const Items& items) {
  return list_of(items, [](const auto& item) { return Value(item); });
}

}  // namespace runner::json
