// bf16 and f16 as storage: conversions to and from f32, rounding to nearest, ties to even.
//
// NaN stays NaN (quieted), overflow gives infinity, subnormals are kept.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/tensor/dtype.h"

namespace runner::backends {

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;  // an all-ones payload would wrap to -0 in the sum above
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // Shift exponent and mantissa into place and let one multiplication by 2^112 rebias, which also scales subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
  const uint32_t finite = std::bit_cast<uint32_t>(scaled);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the mantissa, and the FPU rounds it
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

// Stores `value` as one element of `dtype` at `target`; integers and bool truncate.
inline void store_element(DType dtype, double value, void* target) {
  const auto put = [target](auto element) { std::memcpy(target, &element, sizeof element); };
  switch (dtype) {
    case DType::kF32: return put(static_cast<float>(value));
    case DType::kF64: return put(value);
    case DType::kBf16: return put(f32_to_bf16(static_cast<float>(value)));
    case DType::kF16: return put(f32_to_f16(static_cast<float>(value)));
    case DType::kI32: return put(static_cast<int32_t>(value));
    case DType::kI64: return put(static_cast<int64_t>(value));
    case DType::kBool: return put(static_cast<uint8_t>(value != 0));
  }
}

// Loads the element of `dtype` at `source`, which need not be aligned.
inline double load_element(DType dtype, const void* source) {
  const auto get = [source](auto element) {
    std::memcpy(&element, source, sizeof element);
    return element;
  };
  switch (dtype) {
    case DType::kF32: return get(float{});
    case DType::kF64: return get(double{});
    case DType::kBf16: return bf16_to_f32(get(uint16_t{}));
    case DType::kF16: return f16_to_f32(get(uint16_t{}));
    case DType::kI32: return get(int32_t{});
    case DType::kI64: return static_cast<double>(get(int64_t{}));
    case DType::kBool: return get(uint8_t{});
  }
  return 0;
}

}  // namespace runner::backends
