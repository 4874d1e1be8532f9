#include "schema/json.h"

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

std::string dump(const Value& value, int indent) {
  return json_of(value).dump(indent, ' ', false, Json::error_handler_t::replace);
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
  if (document.list() == nullptr) return dump(document, 2) + '\n';
  std::string out = "[";
  for (const Value& element : *document.list()) out += (out.size() > 1 ? ",\n " : "\n ") + dump(element, -1);
  return out + (out.size() > 1 ? "\n]\n" : "]\n");
}

std::string line(const Value& document) {
  return dump(document, -1) + '\n';
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
