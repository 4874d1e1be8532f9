#include "schema/base/json.h"

#include <nlohmann/json.hpp>

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

// A scalar in JSON; bytes that are not UTF-8 are replaced.
std::string scalar_text(const Value& value) {
  return json_of(value).dump(-1, ' ', false, Json::error_handler_t::replace);
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

// On one line, without a tree of the library's between the values and their text: lists may be long.
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

// A list with what `append(out, i)` makes of each element on a line of its own.
template <class Append>
std::string lines_of(size_t count, Append append) {
  std::string out = "[";
  for (size_t i = 0; i < count; ++i) {
    out += i > 0 ? ",\n " : "\n ";
    append(out, i);
  }
  return out + (count > 0 ? "\n]\n" : "]\n");
}

Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return json.get<int64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return json.get<std::string>();
    case Json::value_t::array: return list_of(json, value_of);
    case Json::value_t::object: break;
    default: return {};
  }
  Object object;
  for (const auto& [key, member] : json.items()) object.emplace_back(key, value_of(member));
  return object;
}

}  // namespace

std::string text(const Value& document) {
  const List* list = document.list();
  if (list == nullptr) return json_of(document).dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
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

Value parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Value() : value_of(json);
}

const Object& members_of(const Value& value) {
  static const Object kNone;
  return value.map() != nullptr ? *value.map() : kNone;
}

}  // namespace runner::json
