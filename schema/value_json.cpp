#include "schema/value_json.h"

#include "schema/field_words.h"

namespace runner::schema {
namespace {

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(double value) const { return value; }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const ValueList& values) const {
    Json list = Json::array();
    for (const Value& value : values) list.push_back(to_json(value));
    return list;
  }
  Json operator()(const ValueMap& members) const {
    Json object = Json::object();
    for (const auto& [key, value] : members) object[key] = to_json(value);
    return object;
  }
};

}  // namespace

Json to_json(const Value& value) {
  return value.visit(ToJson{});
}

Json to_json(const Field& field, const Value& value) {
  const bool is_size = field.type == FieldType::kSize && value.integer() != nullptr;
  return is_size ? Json(size_text(*value.integer())) : to_json(value);
}

std::string dump(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace runner::schema
