// JSON documents for tests, without the JSON library's header, which takes seconds to compile.
//
// A Json is one value of a document: cheap to copy and immutable. Access to a value that is missing or has another type
// throws std::runtime_error with the value.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace runner::support {

class Json {
 public:
  // Throws if `text` is not JSON.
  static Json parse(const std::string& text);

  // For comparisons.
  Json(std::nullptr_t);
  Json(bool value);
  Json(double value);
  Json(const char* value);
  Json(const std::string& value);
  template <std::integral T>
  Json(T value) : Json(of_integer(static_cast<int64_t>(value))) {}

  std::string type() const;  // null, boolean, number, string, array or object
  bool is_integer() const;
  std::string dump() const;  // on one line, members in the order written

  // For objects.
  bool contains(const std::string& key) const;
  Json operator[](const std::string& key) const;
  Json operator[](const char* key) const { return (*this)[std::string(key)]; }
  std::vector<std::string> keys() const;  // in the order written

  // For arrays.
  Json operator[](size_t index) const;
  Json operator[](int index) const { return (*this)[static_cast<size_t>(index)]; }
  std::vector<Json> items() const;

  size_t size() const;  // of both

  double number() const;
  int64_t integer() const;
  bool flag() const;
  std::string text() const;

  // Compares numbers by value and members in any order.
  friend bool operator==(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  explicit Json(std::shared_ptr<const void> node) : node_(std::move(node)) {}
  static Json of_integer(int64_t value);
  Json child(const void* node) const { return Json(std::shared_ptr<const void>(node_, node)); }

  std::shared_ptr<const void> node_;  // a value inside the document, which it keeps alive
};

}  // namespace runner::support
