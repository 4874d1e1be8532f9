// Properties of this CPU. They select instruction sets and the bf16 matrix kernel, and are stored with each run.
//
// Immutable after the first call; thread-safe.
#pragma once

#include <string>

namespace runner::backends {

struct CpuFeatures {
  std::string vendor;  // "AuthenticAMD", "GenuineIntel", …; "unknown" without cpuid
  std::string brand;   // marketing name, may be empty
  int family = 0, model = 0;
  bool avx2 = false, fma = false;
  bool avx512 = false;  // F, BW, DQ and VL
  bool avx512_bf16 = false, amx_bf16 = false;

  // Example: "AuthenticAMD family 26 model 2: avx2 fma avx512 avx512_bf16".
  std::string to_string() const;
};
const CpuFeatures& cpu_features();

// How products of bf16 are computed.
enum class Bf16Products {
  kNative,    // by the CPU's bf16 dot instructions
  kEmulated,  // operands widened to f32 (exact), f32 product, one rounding
};
// Chosen by vendor and features, never by measurement, so that results are reproducible. bf16 dot products run at twice
// the f32 rate on AMD Zen 4 and later and on Intel with AMX, and at half of it on Intel with AVX512-BF16 only.
Bf16Products bf16_products(const CpuFeatures& cpu);
// Whether vector instructions of bf16 run at twice the f32 rate.
bool has_fast_bf16_dot(const CpuFeatures& cpu);

}  // namespace runner::backends
