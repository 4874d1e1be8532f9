// Reads the reference values in this folder; README.md describes the structure of each file.
//
// A Golden is one JSON value of a file: cheap to copy, immutable, safe to share between threads. Access to a missing
// value throws std::runtime_error with the file and the path of the value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/tensor/shape.h"

namespace runner::testing {

// Row-major elements: `values` for floats of any dtype, `integers` for i32, i64 and bool. Both are exact.
struct GoldenTensor {
  backends::DType dtype = backends::DType::kF32;
  backends::Shape shape;
  std::vector<double> values;
  std::vector<int64_t> integers;

  // The elements as T: exact if T is the C++ type of the dtype, or wider.
  template <class T>
  std::vector<T> as() const {
    std::vector<T> result;
    for (double value : values) result.push_back(static_cast<T>(value));
    for (int64_t value : integers) result.push_back(static_cast<T>(value));
    return result;
  }
};

class Golden {
 public:
  // `file`: relative to tests/golden, "ops.json".
  static Golden load(const std::string& file);

  // For objects.
  Golden operator[](const std::string& key) const;
  bool has(const std::string& key) const;  // exists and is not null
  std::vector<std::string> keys() const;   // sorted

  // For arrays.
  std::vector<Golden> items() const;
  size_t size() const;

  // For a whole file: all its cases, or the one with this name.
  std::vector<Golden> cases() const;
  Golden find(const std::string& name) const;
  std::string name() const;  // of a case

  // For scalars and flat arrays of them. A number may be "nan", "inf" or "-inf".
  double number() const;
  int64_t integer() const;
  bool flag() const;
  std::string text() const;
  std::vector<double> numbers() const;
  std::vector<int64_t> integers() const;

  GoldenTensor tensor() const;

 private:
  Golden(std::shared_ptr<const void> node, std::string path) : node_(std::move(node)), path_(std::move(path)) {}
  Golden child(const void* node, const std::string& step) const;
  [[noreturn]] void wanted(const char* what) const;

  std::shared_ptr<const void> node_;  // a JSON value inside the file's document, which it keeps alive
  std::string path_;
};

}  // namespace runner::testing
