// The constructor call of a module as in a hook, for Module::text(): "{stride = 2, padding = 1}".
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace runner::nn {

// "3", or "{3, 5}" for sizes that differ.
template <class Number>
std::string sizes_text(const std::vector<Number>& sizes) {
  const bool is_one = std::ranges::all_of(sizes, [&](Number size) { return size == sizes.front(); });
  return is_one ? fmt::format("{}", sizes.front()) : fmt::format("{{{}}}", fmt::join(sizes, ", "));
}

// Options that are not the defaults.
class OptionsText {
 public:
  void add(std::string_view name, const std::string& value) {
    text_ += fmt::format("{}{} = {}", text_.empty() ? "{" : ", ", name, value);
  }
  // Adds sizes, a number for each axis, unless all of them are the default.
  void add(std::string_view name, const std::vector<int64_t>& sizes, int64_t usual) {
    const auto is_usual = [&](int64_t size) { return size == usual; };
    if (!std::ranges::all_of(sizes, is_usual)) add(name, sizes_text(sizes));
  }
  void add(std::string_view name, double value, double usual) {
    if (value != usual) add(name, fmt::format("{}", value));
  }
  void add(std::string_view name, bool value, bool usual) {
    if (value != usual) add(name, value ? "true" : "false");
  }
  std::string text() const { return text_.empty() ? "" : text_ + "}"; }
  std::string after_arguments() const { return text_.empty() ? "" : ", " + text(); }

 private:
  std::string text_;
};

}  // namespace runner::nn
