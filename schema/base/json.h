// JSON documents as values, and their text: what commands print and what the store keeps about recipes and runs.
//
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "schema/base/value.h"

namespace runner::json {

using Value = schema::Value;
using List = schema::ValueList;
using Object = schema::ValueMap;

// An object is indented by two, a list has one element on each line.  NaN and infinities are null; bytes that are not
// UTF-8 are replaced, so that names and messages cannot make a document that nobody can read.  Ends with a newline.
std::string text(const Value& document);
// The same for a list of `count` elements that are made one by one, so that they are never all in memory.
std::string list_text(size_t count, const std::function<Value(size_t)>& element);
// The same on one line, and such a line without its end, as a part of other texts.
std::string line(const Value& document);
std::string compact(const Value& document);

// Returns null if the text is not JSON, or is nested more than 200 levels deep.  Keeps several members of one name.
Value parse(std::string_view text);

// The members of an object; none for anything else.
const Object& members_of(const Value& value);

// Reads the members of an object that a program wrote.  Throws Error(kStore) if a member is missing or is of another
// type, with the member's name and what was found.  The value must outlive the reader.
class ObjectReader {
 public:
  explicit ObjectReader(const Value& object);

  const Value* find(std::string_view key) const;  // null if the object has no such member
  const Value& at(std::string_view key) const;

  bool boolean(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;  // of a member that may be missing
  const std::string& text(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;

 private:
  const Object& members_;
};

// Null for an empty text, a missing value.
inline Value or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}
template <class T>
Value or_null(const std::optional<T>& value) {
  return value ? Value(int64_t{*value}) : Value();
}

// A list of what `convert` makes of each item.
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
