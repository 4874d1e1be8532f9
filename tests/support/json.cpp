#include "tests/support/json.h"

#include <ostream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace runner::support {
namespace {

using Node = nlohmann::ordered_json;

const Node& as_node(const std::shared_ptr<const void>& node) {
  return *static_cast<const Node*>(node.get());
}

std::shared_ptr<const void> make(Node node) {
  return std::make_shared<const Node>(std::move(node));
}

// `right`: whether the value has the requested type.
const Node& checked(const Node& node, bool right, const std::string& wanted) {
  if (!right) throw std::runtime_error("wanted " + wanted + ", got " + node.dump());
  return node;
}

}  // namespace

Json Json::parse(const std::string& text) {
  Node node = Node::parse(text, nullptr, /*allow_exceptions=*/false);
  if (node.is_discarded()) throw std::runtime_error("this is no JSON: " + text);
  return Json(make(std::move(node)));
}

Json::Json(std::nullptr_t) : node_(make(nullptr)) {}
Json::Json(bool value) : node_(make(value)) {}
Json::Json(double value) : node_(make(value)) {}
Json::Json(const char* value) : node_(make(value)) {}
Json::Json(const std::string& value) : node_(make(value)) {}

Json Json::of_integer(int64_t value) {
  return Json(make(value));
}

std::string Json::type() const {
  return as_node(node_).type_name();
}

bool Json::is_integer() const {
  return as_node(node_).is_number_integer();
}

std::string Json::dump() const {
  return as_node(node_).dump();
}

bool Json::contains(const std::string& key) const {
  return as_node(node_).contains(key);
}

Json Json::operator[](const std::string& key) const {
  const Node& node = as_node(node_);
  return child(&checked(node, node.is_object() && node.contains(key), "an object with " + key).at(key));
}

std::vector<std::string> Json::keys() const {
  std::vector<std::string> keys;
  const Node& node = as_node(node_);
  for (const auto& [key, value] : checked(node, node.is_object(), "an object").items()) keys.push_back(key);
  return keys;
}

Json Json::operator[](size_t index) const {
  const Node& node = as_node(node_);
  return child(
      &checked(node, node.is_array() && index < node.size(), "a list with " + std::to_string(index)).at(index));
}

std::vector<Json> Json::items() const {
  std::vector<Json> items;
  const Node& node = as_node(node_);
  for (const Node& item : checked(node, node.is_array(), "a list")) items.push_back(child(&item));
  return items;
}

size_t Json::size() const {
  const Node& node = as_node(node_);
  return checked(node, node.is_structured(), "a list or an object").size();
}

double Json::number() const {
  const Node& node = as_node(node_);
  return checked(node, node.is_number(), "a number").get<double>();
}

int64_t Json::integer() const {
  const Node& node = as_node(node_);
  return checked(node, node.is_number_integer(), "an integer").get<int64_t>();
}

bool Json::flag() const {
  const Node& node = as_node(node_);
  return checked(node, node.is_boolean(), "true or false").get<bool>();
}

std::string Json::text() const {
  const Node& node = as_node(node_);
  return checked(node, node.is_string(), "a text").get<std::string>();
}

bool operator==(const Json& a, const Json& b) {
  using Unordered = nlohmann::json;
  return Unordered::parse(a.dump()) == Unordered::parse(b.dump());
}

std::ostream& operator<<(std::ostream& out, const Json& json) {
  return out << json.dump();
}

}  // namespace runner::support
