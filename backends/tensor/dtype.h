// Element types of tensors, and how collectives reduce their values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace runner::backends {

// The names are stored in checkpoints and must not change.
enum class DType : uint8_t { kF32 = 0, kF64 = 1, kBf16 = 2, kF16 = 3, kI32 = 4, kI64 = 5, kBool = 6 };
inline constexpr int kDTypeCount = 7;

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    case DType::kBool: return 1;
  }
  return 0;
}

// "f32", "f64", "bf16", "f16", "i32", "i64", "bool".
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[kDTypeCount] = {"f32", "f64", "bf16", "f16", "i32", "i64", "bool"};
  return kNames[static_cast<int>(dtype)];
}

// The dtype of this name; none if there is none.
constexpr std::optional<DType> find_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

constexpr bool is_float(DType dtype) {
  return static_cast<int>(dtype) <= static_cast<int>(DType::kF16);
}
constexpr bool is_int(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64;
}
enum class Reduction : uint8_t { kSum, kMin, kMax };
// Whether collectives reduce values of this type.
constexpr bool is_reduced(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || is_int(dtype);
}

}  // namespace runner::backends
