// Tensor types and shapes as fmt arguments. They are formatted only if a check fails, so that passing checks are cheap.
#pragma once

#include <fmt/format.h>

#include "backends/tensor/shape.h"

template <>
struct fmt::formatter<runner::backends::Shape> : fmt::formatter<std::string_view> {
  auto format(const runner::backends::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(shape.to_string(), context);
  }
};

template <>
struct fmt::formatter<runner::backends::TensorType> : fmt::formatter<std::string_view> {
  auto format(const runner::backends::TensorType& type, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(type.to_string(), context);
  }
};
