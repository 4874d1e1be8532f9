// JSON documents as values, and their text: what commands print and what the store keeps about recipes and runs.
//
// Apart from json.cpp only what reads JSON of its own knows the JSON library: safetensors, states, and what states say
// of data (formats/safetensors.cpp, train/run/checkpoint.cpp, data/encoding.cpp). Thread-safe.
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

// Null where the text is no JSON.
Value parse(const std::string& text);

// The members of an object; none for anything else.
const Object& members_of(const Value& value);

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
