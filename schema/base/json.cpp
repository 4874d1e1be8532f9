#include "schema/base/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::json {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value);

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(double value) const { return value; }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const List& values) const {
    Json list = Json::array();
    for (const Value& value : values) list.push_back(json_of(value));
    return list;
  }
  Json operator()(const Object& members) const {
    Json object = Json::object();
    for (const auto& [key, value] : members) object[key] = json_of(value);
    return object;
  }
};

Json json_of(const Value& value) {
  return value.visit(ToJson{});
}

// Returns a scalar as JSON. Replaces bytes that are not UTF-8, and escapes unsafe characters (is_unsafe()).
std::string scalar_text(const Value& value) {
  return visible(json_of(value).dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool needs_no_escape(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  return plain;
}

void append_line(std::string& out, const Value& value);

void append_text(std::string& out, const std::string& text) {
  if (!needs_no_escape(text)) {
    out += scalar_text(text);
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

// Writes one line directly from the values, without a tree of the library, because lists may be long.
struct AppendLine {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { out += scalar_text(value); }
  void operator()(const std::string& value) const { append_text(out, value); }
  void operator()(const List& values) const {
    out += '[';
    for (const Value& value : values) {
      if (&value != values.data()) out += ',';
      append_line(out, value);
    }
    out += ']';
  }
  void operator()(const Object& members) const {
    out += '{';
    for (const auto& member : members) {
      if (&member != members.data()) out += ',';
      append_text(out, member.first);
      out += ':';
      append_line(out, member.second);
    }
    out += '}';
  }
};

void append_line(std::string& out, const Value& value) {
  value.visit(AppendLine{out});
}

// Writes a list with one element per line, each by `append(out, i)`.
template <class Append>
std::string lines_of(size_t count, Append append) {
  std::string out = "[";
  for (size_t i = 0; i < count; ++i) {
    out += i > 0 ? ",\n " : "\n ";
    append(out, i);
  }
  return out + (count > 0 ? "\n]\n" : "]\n");
}

// Builds a Value while the library parses. The library's own tree would recurse when it is destroyed.
class ValueBuilder {
 public:
  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(static_cast<int64_t>(value)); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(size_t) { return open(Object{}); }
  bool start_array(size_t) { return open(List{}); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  Value take() { return std::move(document_); }

 private:
  static constexpr size_t kDeepest = 200;

  struct Open {
    Value value;      // a list or an object
    std::string key;  // of the object's next member
  };

  bool open(Value empty) {
    open_.push_back({std::move(empty), {}});
    return open_.size() <= kDeepest;
  }

  bool close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(Value value) {
    if (open_.empty()) {
      document_ = std::move(value);
    } else if (auto* list = std::get_if<List>(&open_.back().value)) {
      list->push_back(std::move(value));
    } else {
      std::get<Object>(open_.back().value).emplace_back(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  Value document_;
};

}  // namespace

std::string text(const Value& document) {
  const List* list = document.list();
  if (list == nullptr) return visible(json_of(document).dump(2, ' ', false, Json::error_handler_t::replace)) + '\n';
  return lines_of(list->size(), [&](std::string& out, size_t i) { append_line(out, (*list)[i]); });
}

std::string list_text(size_t count, const std::function<Value(size_t)>& element) {
  return lines_of(count, [&](std::string& out, size_t i) { append_line(out, element(i)); });
}

std::string compact(const Value& document) {
  std::string out;
  append_line(out, document);
  return out;
}

std::string line(const Value& document) {
  return compact(document) + '\n';
}

Value parse(std::string_view text) {
  ValueBuilder builder;
  return Json::sax_parse(text, &builder) ? builder.take() : Value();
}

const Object& members_of(const Value& value) {
  static const Object kNone;
  return value.map() != nullptr ? *value.map() : kNone;
}

const List& elements_of(const Value& value) {
  static const List kNone;
  return value.list() != nullptr ? *value.list() : kNone;
}

const Value& member(const Value& object, std::string_view name) {
  static const Value kNull;
  const Object& members = members_of(object);
  const auto found = std::ranges::find(members, name, [](const auto& row) { return std::string_view(row.first); });
  return found != members.end() ? found->second : kNull;
}

std::optional<int64_t> integer_of(const Value& value) {
  return value.integer() != nullptr ? std::optional(*value.integer()) : std::nullopt;
}

std::optional<double> number_of(const Value& value) {
  if (value.integer() != nullptr) return static_cast<double>(*value.integer());
  return value.number() != nullptr ? std::optional(*value.number()) : std::nullopt;
}

std::string text_of(const Value& value) {
  return value.text() != nullptr ? *value.text() : "";
}

namespace {

// Returns the member as a T.
template <class T>
const T& checked(std::string_view key, const Value& value, const T* found, std::string_view expected) {
  RUN_CHECK(found, ErrorKind::kStore, "{} is {}, expected {}", key, compact(value), expected);
  return *found;
}

template <class T, class Convert>
std::vector<T> checked_list(std::string_view key, const Value& value, std::string_view expected, Convert convert) {
  std::vector<T> items;
  for (const Value& item : checked(key, value, value.list(), expected)) {
    const std::optional<T> converted = convert(item);
    RUN_CHECK(converted, ErrorKind::kStore, "{} has {}, expected {}", key, compact(item), expected);
    items.push_back(*converted);
  }
  return items;
}

template <class T>
std::optional<T> copied(const T* found) {
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

}  // namespace

ObjectReader::ObjectReader(const Value& object) : members_(members_of(object)) {
  RUN_CHECK(object.map(), ErrorKind::kStore, "expected a JSON object, got {}", compact(object));
}

const Value* ObjectReader::find(std::string_view key) const {
  const auto found = std::ranges::find(members_, key, &Object::value_type::first);
  return found == members_.end() ? nullptr : &found->second;
}

const Value& ObjectReader::at(std::string_view key) const {
  const Value* value = find(key);
  RUN_CHECK(value, ErrorKind::kStore, "{} is missing", key);
  return *value;
}

bool ObjectReader::boolean(std::string_view key) const {
  return checked(key, at(key), at(key).boolean(), "true or false");
}

int64_t ObjectReader::integer(std::string_view key) const {
  return checked(key, at(key), at(key).integer(), "an integer");
}

int64_t ObjectReader::integer(std::string_view key, int64_t otherwise) const {
  return find(key) != nullptr ? integer(key) : otherwise;
}

double ObjectReader::number(std::string_view key) const {
  const std::optional<double> number = number_of(at(key));
  RUN_CHECK(number, ErrorKind::kStore, "{} is {}, expected a number", key, compact(at(key)));
  return *number;
}

const std::string& ObjectReader::text(std::string_view key) const {
  return checked(key, at(key), at(key).text(), "a text");
}

std::vector<int64_t> ObjectReader::integers(std::string_view key) const {
  return checked_list<int64_t>(key, at(key), "a list of integers", integer_of);
}

std::vector<double> ObjectReader::numbers(std::string_view key) const {
  return checked_list<double>(key, at(key), "a list of numbers", number_of);
}

std::vector<std::string> ObjectReader::texts(std::string_view key) const {
  return checked_list<std::string>(key, at(key), "a list of texts",
                                   [](const Value& item) { return copied(item.text()); });
}

}  // namespace runner::json
