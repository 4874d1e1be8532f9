// What this CPU is and can do: decides instruction sets and which kernel multiplies bf16, and goes into the run record.
//
// Immutable after the first call; thread-safe.
#pragma once

#include <string>

namespace runner::backends {

struct CpuFeatures {
  std::string vendor;  // "AuthenticAMD", "GenuineIntel", …; "unknown" where there is no cpuid
  std::string brand;   // marketing name, may be empty
  int family = 0, model = 0;
  bool avx2 = false, fma = false;
  bool avx512 = false;  // F, BW, DQ and VL
  bool avx512_bf16 = false, amx_bf16 = false;

  // "AuthenticAMD family 26 model 2: avx2 fma avx512 avx512_bf16"
  std::string to_string() const;
};
const CpuFeatures& cpu_features();

// The cores that this process may run on, at least 1.
int usable_cores();

// How products of bf16 are computed.
enum class Bf16Products {
  kNative,    // by the CPU's bf16 dot instructions
  kEmulated,  // operands widened to f32 (exact), f32 product, one rounding
};
// Chosen by a table over vendor and features, never by a measurement, so that results do not depend on the day: bf16
// dot products run at twice the f32 rate on AMD's Zen 4 and later and with Intel's AMX, at half of it on Intel cores
// with AVX512-BF16 alone.
Bf16Products bf16_products(const CpuFeatures& cpu);

}  // namespace runner::backends
