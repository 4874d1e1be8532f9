#include "tests/golden/golden.h"

#include <fstream>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/support/paths.h"

namespace runner::testing {

namespace {

using nlohmann::json;

const json& as_json(const std::shared_ptr<const void>& node) {
  return *static_cast<const json*>(node.get());
}

backends::DType dtype_of(const std::string& name, const std::string& path) {
  for (int i = 0; i < backends::kDTypeCount; ++i) {
    if (backends::name_of(static_cast<backends::DType>(i)) == name) return static_cast<backends::DType>(i);
  }
  throw std::runtime_error(fmt::format("{}: unknown dtype {}", path, name));
}

}  // namespace

Golden Golden::load(const std::string& file) {
  std::ifstream stream(support::source_path("tests/golden/") + file);
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot read it in tests/golden", file));
  return Golden(std::make_shared<const json>(json::parse(stream)), file);
}

Golden Golden::child(const void* node, const std::string& step) const {
  return Golden(std::shared_ptr<const void>(node_, node), fmt::format("{}: {}", path_, step));
}

void Golden::wanted(const char* what) const {
  throw std::runtime_error(fmt::format("{}: is not {}", path_, what));
}

Golden Golden::operator[](const std::string& key) const {
  const json& node = as_json(node_);
  if (!node.is_object() || !node.contains(key)) throw std::runtime_error(fmt::format("{}: has no {}", path_, key));
  return child(&node.at(key), key);
}

bool Golden::has(const std::string& key) const {
  const json& node = as_json(node_);
  return node.is_object() && node.contains(key) && !node.at(key).is_null();
}

std::vector<std::string> Golden::keys() const {
  const json& node = as_json(node_);
  if (!node.is_object()) wanted("an object");
  std::vector<std::string> result;
  for (const auto& [key, value] : node.items()) result.push_back(key);
  return result;
}

std::vector<Golden> Golden::items() const {
  const json& node = as_json(node_);
  if (!node.is_array()) wanted("an array");
  std::vector<Golden> result;
  for (const json& item : node) {
    const bool named = item.is_object() && item.contains("name");
    result.push_back(child(&item, named ? item.at("name").get<std::string>() : std::to_string(result.size())));
  }
  return result;
}

size_t Golden::size() const {
  return as_json(node_).size();
}

std::vector<Golden> Golden::cases() const {
  return (*this)["cases"].items();
}

Golden Golden::find(const std::string& name) const {
  for (const Golden& item : cases()) {
    if (item.name() == name) return item;
  }
  throw std::runtime_error(fmt::format("{}: has no case {}", path_, name));
}

std::string Golden::name() const {
  return (*this)["name"].text();
}

double Golden::number() const {
  const json& node = as_json(node_);
  if (node.is_number()) return node.get<double>();
  if (node == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (node == "inf") return std::numeric_limits<double>::infinity();
  if (node == "-inf") return -std::numeric_limits<double>::infinity();
  wanted("a number");
}

int64_t Golden::integer() const {
  if (!as_json(node_).is_number_integer()) wanted("an integer");
  return as_json(node_).get<int64_t>();
}

bool Golden::flag() const {
  if (!as_json(node_).is_boolean()) wanted("true or false");
  return as_json(node_).get<bool>();
}

std::string Golden::text() const {
  if (!as_json(node_).is_string()) wanted("text");
  return as_json(node_).get<std::string>();
}

std::vector<double> Golden::numbers() const {
  std::vector<double> result;
  for (const Golden& item : items()) result.push_back(item.number());
  return result;
}

std::vector<int64_t> Golden::integers() const {
  std::vector<int64_t> result;
  for (const Golden& item : items()) result.push_back(item.integer());
  return result;
}

GoldenTensor Golden::tensor() const {
  GoldenTensor result;
  result.dtype = dtype_of((*this)["dtype"].text(), path_);
  result.shape = backends::Shape(std::span<const int64_t>((*this)["shape"].integers()));
  if (backends::is_float(result.dtype)) {
    result.values = (*this)["data"].numbers();
  } else {
    result.integers = (*this)["data"].integers();
  }
  const size_t count = result.values.size() + result.integers.size();
  if (count != static_cast<size_t>(result.shape.elements())) wanted("a tensor with as many elements as its shape");
  return result;
}

}  // namespace runner::testing
