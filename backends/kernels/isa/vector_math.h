// Elementary functions of f32 as straight-line code that compilers turn into vector instructions.
//
// No branches, no tables, no FMA: every instruction set gives the same bits. Comments state the largest error in units
// in the last place (ulp) that tests/backends/kernels_vector_math_test.cpp finds over all bf16 values and dense f32
// samples. The coefficients are minimax fits for these intervals. NaN, infinities, denormals and signed zeros follow
// Annex F of C. Functions are `static`, so that each instruction set compiles its own copy (loops.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#define RUNNER_INLINE static inline __attribute__((always_inline))

// Bytes of a register of the instruction set that a file is compiled for. A macro, since a constant would be one entity
// with several values.
#if defined(__AVX512F__)
#define RUNNER_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define RUNNER_VECTOR_BYTES 32
#else
#define RUNNER_VECTOR_BYTES 16
#endif

namespace runner::backends::vector_math {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RUNNER_INLINE uint32_t bits_of(float x) {
  return std::bit_cast<uint32_t>(x);
}
RUNNER_INLINE float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
RUNNER_INLINE float magnitude(float x) {
  return from_bits(bits_of(x) & 0x7fffffffu);
}
RUNNER_INLINE float with_sign_of(float size, float sign) {
  return from_bits((bits_of(size) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

// 1 ulp. e^x = 2^n e^f with f = x − n ln 2 in two parts.
RUNNER_INLINE float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float f = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.3799316e-3f;
  p = p * f + 8.376113e-3f;
  p = p * f + 4.166918e-2f;
  p = p * f + 1.6666454e-1f;
  p = p * f + 4.9999988e-1f;
  p = (p * (f * f) + f) + 1.0f;
  // Two factors, so that both stay normal numbers.
  const auto exponent = static_cast<int32_t>(bits_of(shifted) - bits_of(kRound));
  const int32_t half = exponent >> 1;
  return p * from_bits(static_cast<uint32_t>(half + 127) << 23) *
         from_bits(static_cast<uint32_t>(exponent - half + 127) << 23);
}

// 1 ulp. x = 2^e m with m in [√½, √2).
RUNNER_INLINE float log(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3u;
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = bits_of(tiny ? x * 8388608.0f : x) + (0x3f800000u - kSqrtHalf);
  const auto e = static_cast<float>(static_cast<int32_t>(bits >> 23) - (tiny ? 127 + 23 : 127));
  const float r = from_bits((bits & 0x007fffffu) + kSqrtHalf) - 1.0f;
  const float r2 = r * r;
  float p = -7.634497e-2f;
  p = p * r + 1.2761576e-1f;
  p = p * r - 1.3160183e-1f;
  p = p * r + 1.4201757e-1f;
  p = p * r - 1.6623357e-1f;
  p = p * r + 2.0001227e-1f;
  p = p * r - 2.500082e-1f;
  p = p * r + 3.333333e-1f;
  const float y = (p * (r2 * r) + e * -2.12194440e-4f) - 0.5f * r2;
  float result = (r + y) + e * 0.693359375f;
  result = x == kInf ? kInf : result;
  result = x == 0.0f ? -kInf : result;
  return x >= 0.0f ? result : kNan;
}

// 2 ulp. log u of u = 1 + x, corrected for the rounding of u.
RUNNER_INLINE float log1p(float x) {
  const float u = 1.0f + x;
  float result = log(u) + (x - (u - 1.0f)) / u;
  result = u == kInf || u == 0.0f ? log(u) : result;
  return magnitude(x) < 1e-8f ? x : result;
}

// 2 ulp.
RUNNER_INLINE float tanh(float x) {
  float a = magnitude(x);
  a = a > 10.0f ? 10.0f : a;
  const float z = x * x;
  float p = -5.704987e-3f;
  p = p * z + 2.0639086e-2f;
  p = p * z - 5.3739715e-2f;
  p = p * z + 1.3331442e-1f;
  p = p * z - 3.333328e-1f;
  const float small = x + x * z * p;
  const float large = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return with_sign_of(a < 0.625f ? small : large, x);
}

// 3 ulp. 1 / (1 + e^−x) from e^−|x|, so that small results keep their digits.
RUNNER_INLINE float sigmoid(float x) {
  const float e = exp(-magnitude(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

// erfc t for t ≥ 1, given e^(−t²): a polynomial in q = 1 / (1 + t/2).
RUNNER_INLINE float erfc_tail(float t, float exp_minus_t2) {
  const float q = 1.0f / (1.0f + 0.5f * t);
  float p = 9.376441e-2f;
  p = p * q - 2.2706434e-1f;
  p = p * q + 8.344778e-2f;
  p = p * q + 6.034196e-2f;
  p = p * q + 1.790403e-1f;
  p = p * q + 2.4690405e-1f;
  p = p * q + 2.82047e-1f;
  p = p * q + 2.8209803e-1f;
  return p * q * exp_minus_t2;
}

// erf t for t ≤ 1, z = t²
RUNNER_INLINE float erf_centre(float t, float z) {
  float p = 7.8538615e-5f;
  p = p * z - 8.0101937e-4f;
  p = p * z + 5.1883277e-3f;
  p = p * z - 2.6853813e-2f;
  p = p * z + 1.12835854e-1f;
  p = p * z - 3.7612626e-1f;
  p = p * z + 1.1283791f;
  return t * p;
}

// 3 ulp.
RUNNER_INLINE float erf(float x) {
  const float t = magnitude(x);
  const float z = x * x;
  const float large = with_sign_of(1.0f - erfc_tail(t, exp(-z)), x);
  return t < 1.0f ? erf_centre(x, z) : t > 4.0f ? with_sign_of(1.0f, x) : large;
}

struct SinCos {
  float sin, cos;
};

// 3 ulp each. The angle is `turn` / 2³² of a turn. Whole quarters are subtracted exactly; polynomials cover the
// remaining ±⅛ turn.
RUNNER_INLINE SinCos sin_cos(uint32_t turn) {
  const uint32_t quarter = (turn + 0x20000000u) >> 30;  // the nearest quarter; 4 means 0
  const auto rest = static_cast<int32_t>(turn - (quarter << 30));
  const float x = static_cast<float>(rest) * 1.46291807926715968e-9f;  // 2π / 2³²
  const float z = x * x;
  float s = -1.9515e-4f;
  s = s * z + 8.33216e-3f;
  s = s * z - 1.6666655e-1f;
  s = x + x * (z * s);
  float c = 2.4433073e-5f;
  c = c * z - 1.3887315e-3f;
  c = c * z + 4.1666646e-2f;
  c = (1.0f - 0.5f * z) + z * z * c;
  const bool odd = (quarter & 1u) != 0;
  const float sin_size = odd ? c : s, cos_size = odd ? s : c;
  const uint32_t sin_sign = (quarter & 2u) << 30, cos_sign = ((quarter + 1u) & 2u) << 30;
  return {from_bits(bits_of(sin_size) ^ sin_sign), from_bits(bits_of(cos_size) ^ cos_sign)};
}

// Φ(x) = ½ erfc(−x/√2), given e^(−x²/2). The tail is a product, so that Φ keeps its digits where 1 + erf would cancel.
RUNNER_INLINE float normal_distribution(float x, float half_square, float exp_minus_half_square) {
  const float t = magnitude(x) * 0.70710678f;
  const float tail = 0.5f * erfc_tail(t, exp_minus_half_square);
  const float centre = 0.5f + 0.5f * erf_centre(x * 0.70710678f, half_square);
  return t < 1.0f ? centre : x > 0.0f ? 1.0f - tail : tail;
}

// x Φ(x). 5 ulp for x > −1, 80 below.
RUNNER_INLINE float gelu(float x) {
  const float half_square = 0.5f * (x * x);
  return x * normal_distribution(x, half_square, exp(-half_square));
}

// Limits x to a range beyond which a slope is 0 or 1, so that x times a vanishing factor is not NaN.
template <class T>
RUNNER_INLINE T bounded(T x, T bound) {
  x = x < -bound ? -bound : x;
  return x > bound ? bound : x;
}

// Φ(x) + x φ(x), φ the normal density. Absolute error: 2⁻²².
RUNNER_INLINE float gelu_slope(float x) {
  const float half_square = 0.5f * (x * x);
  const float bell = exp(-half_square);
  return normal_distribution(x, half_square, bell) + bounded(x, 20.0f) * (0.39894228f * bell);
}

// √(8/π) (x + 0.044715 x³)
RUNNER_INLINE float gelu_tanh_argument(float x) {
  return 1.59576912f * (x + 0.044715f * (x * x * x));
}

// 3 ulp for x > −1. x sigmoid(2u) = ½ x (1 + tanh u), u = √(2/π) (x + 0.044715 x³)
RUNNER_INLINE float gelu_tanh(float x) {
  return x * sigmoid(gelu_tanh_argument(x));
}

// With s = sigmoid(u): s + x s (1 − s) du/dx. Absolute error of the slopes below: 2⁻²².
RUNNER_INLINE float slope_by_sigmoid(float x, float u, float du) {
  const float s = sigmoid(u), e = exp(-magnitude(u));
  const float rest = (u >= 0.0f ? e : 1.0f) / (1.0f + e);
  return s + (x * s) * (rest * du);
}

RUNNER_INLINE float gelu_tanh_slope(float x) {
  const float inner = bounded(x, 20.0f);
  return slope_by_sigmoid(inner, gelu_tanh_argument(x), 1.59576912f * (1.0f + 0.134145f * (inner * inner)));
}

// 4 ulp if the sigmoid is a normal number.
RUNNER_INLINE float silu(float x) {
  return x * sigmoid(x);
}

RUNNER_INLINE float silu_slope(float x) {
  return slope_by_sigmoid(bounded(x, 120.0f), x, 1.0f);
}

inline constexpr double kRoundF64 = 6755399441055744.0;  // 1.5 · 2^52: adding it leaves the nearest integer in low bits

// log2 of a positive normal number in f64, for results in f32. x = 2^e m with m in [√½, √2), and log m is
// 2 artanh((m − 1) / (m + 1)). Relative error: 2⁻⁴⁹.
RUNNER_INLINE double log2(double x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const uint64_t bits = std::bit_cast<uint64_t>(x) + (0x3ff0000000000000u - kSqrtHalf);
  const double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) + kSqrtHalf);
  // The exponent as f64 without an integer conversion: e + 2^52 has e in its low bits.
  const double e = std::bit_cast<double>((bits >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 1.0 / 17;
  p = p * s2 + 1.0 / 15;
  p = p * s2 + 1.0 / 13;
  p = p * s2 + 1.0 / 11;
  p = p * s2 + 1.0 / 9;
  p = p * s2 + 1.0 / 7;
  p = p * s2 + 1.0 / 5;
  p = p * s2 + 1.0 / 3;
  p = p * s2 + 1.0;
  return e + 2.8853900817779268 * s * p;
}

// cos 2πt of 0 ≤ t < 2⁴⁹ in f64, for results in f32. Whole quarters are subtracted exactly; Taylor polynomials cover
// the remaining ±⅛ turn. Absolute error: 2⁻⁵⁰.
RUNNER_INLINE double cos_of_turns(double t) {
  const double shifted = 4.0 * t + kRoundF64;
  const uint64_t quarter = std::bit_cast<uint64_t>(shifted);
  const double x = (t - 0.25 * (shifted - kRoundF64)) * 6.2831853071795865, z = x * x;
  double s = -1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = x + x * (z * s);
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = (1.0 - 0.5 * z) + z * z * c;
  const uint64_t sign = ((quarter + 1u) & 2u) << 62;
  return std::bit_cast<double>(std::bit_cast<uint64_t>((quarter & 1u) != 0 ? s : c) ^ sign);
}

// 1 ulp. 2^(y log2 |x|) in f64, whose 53 bits leave one rounding; then the sign and the special cases of C's pow.
RUNNER_INLINE float pow(float x, float y) {
  const float a = magnitude(x);
  double log2a = log2(static_cast<double>(a));
  log2a = a == 0.0f ? -static_cast<double>(kInf) : a == kInf ? static_cast<double>(kInf) : log2a;
  double t = static_cast<double>(y) * log2a;
  t = t < -200.0 ? -200.0 : t;
  t = t > 200.0 ? 200.0 : t;
  const double shifted = t + kRoundF64;
  const double f = (t - (shifted - kRoundF64)) * 0.69314718055994531;
  double q = 1.0 / 3628800;
  q = q * f + 1.0 / 362880;
  q = q * f + 1.0 / 40320;
  q = q * f + 1.0 / 5040;
  q = q * f + 1.0 / 720;
  q = q * f + 1.0 / 120;
  q = q * f + 1.0 / 24;
  q = q * f + 1.0 / 6;
  q = q * f + 0.5;
  q = q * f + 1.0;
  q = q * f + 1.0;
  const double scale =
      std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kRoundF64) + 1023u) << 52);
  const auto size = static_cast<float>(q * scale);

  const float y_size = magnitude(y);
  const bool whole = y_size >= 8388608.0f || (y_size + 8388608.0f) - 8388608.0f == y_size;
  const float half_y = 0.5f * y_size;
  const bool odd = whole && y_size < 16777216.0f && (half_y + 8388608.0f) - 8388608.0f != half_y;
  const bool negative = (bits_of(x) >> 31) != 0;
  float result = negative && odd ? -size : size;
  result = negative && !whole && a != 0.0f && a != kInf ? kNan : result;
  result = a == 1.0f && y_size == kInf ? 1.0f : result;
  result = x != x || y != y ? kNan : result;
  return y == 0.0f || x == 1.0f ? 1.0f : result;
}

// f32 to f16, to nearest even: the same bits as f32_to_f16 (tensor/float16.h), without branches.
RUNNER_INLINE uint16_t to_f16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t size = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((size >> 13) & 0x3ffu);
  const uint32_t subnormal = bits_of(from_bits(size) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
  uint32_t half = size < 0x38800000u ? subnormal : normal;
  half = size >= 0x477ff000u ? 0x7c00u : half;
  half = size > 0x7f800000u ? nan : half;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | half);
}

}  // namespace runner::backends::vector_math
