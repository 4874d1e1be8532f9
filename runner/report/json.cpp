#include "runner/report/json.h"

#include "schema/value_json.h"

namespace runner::report {
namespace {

using schema::Json;

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
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

std::string json_text(const Value& document) {
  if (document.list() == nullptr) return dump(schema::to_json(document), 2) + '\n';
  std::string out = "[";
  for (const Value& element : *document.list()) {
    out += (out.size() > 1 ? ",\n " : "\n ") + dump(schema::to_json(element), -1);
  }
  return out + (out.size() > 1 ? "\n]\n" : "]\n");
}

std::string json_line(const Value& document) {
  return dump(schema::to_json(document), -1) + '\n';
}

Value parse_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Value() : value_of(json);
}

const Object& members_of(const Value& value) {
  static const Object kNone;
  return value.map() != nullptr ? *value.map() : kNone;
}

}  // namespace runner::report
