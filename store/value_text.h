// Converts stored values, of a parameter or an SQL result, to text and to JSON. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "schema/base/json.h"
#include "schema/base/sha256.h"

namespace runner::store {

template <class... T>
bool is_number(const std::variant<T...>& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

// Returns all digits of a number, "true" or "false", a text unchanged, or bytes in hexadecimal; empty for monostate.
template <class... T>
std::string text_of(const std::variant<T...>& value) {
  const auto text = [](const auto& held) -> std::string {
    using Held = std::decay_t<decltype(held)>;
    if constexpr (std::is_same_v<Held, std::monostate>) {
      return "";
    } else if constexpr (std::is_same_v<Held, std::vector<std::byte>>) {
      return hex(held);
    } else {
      return fmt::format("{}", held);
    }
  };
  return std::visit(text, value);
}

// As text_of(), but with JSON types: bytes become hexadecimal text, and monostate becomes null.
template <class... T>
json::Value json_of(const std::variant<T...>& value) {
  const auto json = [&](const auto& held) -> json::Value {
    if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::vector<std::byte>>) {
      return text_of(value);
    } else {
      return held;
    }
  };
  return std::visit(json, value);
}

}  // namespace runner::store
