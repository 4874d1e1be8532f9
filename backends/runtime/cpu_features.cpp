#include "backends/runtime/cpu_features.h"

#include <cstring>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace runner::backends {

namespace {

#if defined(__x86_64__)

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf cpuid(unsigned leaf, unsigned sub = 0) {
  Leaf out;
  __get_cpuid_count(leaf, sub, &out.a, &out.b, &out.c, &out.d);
  return out;
}

void append_registers(std::string& text, std::initializer_list<unsigned> registers) {
  for (const unsigned value : registers) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    text.append(bytes, 4);
  }
}

// Tile registers are usable only if the system saves them: bits 17 and 18 of XCR0.
bool system_saves_tiles() {
  if (!(cpuid(1).c >> 27 & 1u)) return false;  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3u) == 3u;
}

CpuFeatures detect() {
  CpuFeatures cpu;
  const Leaf vendor = cpuid(0);
  append_registers(cpu.vendor, {vendor.b, vendor.d, vendor.c});
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Leaf part = cpuid(leaf);
    append_registers(cpu.brand, {part.a, part.b, part.c, part.d});
  }
  cpu.brand = cpu.brand.c_str();  // truncated at the first zero
  const unsigned version = cpuid(1).a;
  const unsigned family = version >> 8 & 15u, extended_model = (version >> 16 & 15u) << 4;
  cpu.family = static_cast<int>(family == 15 ? family + (version >> 20 & 255u) : family);
  cpu.model = static_cast<int>((version >> 4 & 15u) | (family == 6 || family == 15 ? extended_model : 0u));
  cpu.avx2 = __builtin_cpu_supports("avx2");
  cpu.fma = __builtin_cpu_supports("fma");
  cpu.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  cpu.avx512_bf16 = cpu.avx512 && (cpuid(7, 1).a >> 5 & 1u);
  cpu.amx_bf16 = cpu.avx512 && (cpuid(7).d >> 22 & 1u) && system_saves_tiles();
  return cpu;
}

#else

CpuFeatures detect() {
  CpuFeatures cpu;
  cpu.vendor = "unknown";
  return cpu;
}

#endif

}  // namespace

std::string CpuFeatures::to_string() const {
  std::string text = fmt::format("{} family {} model {}:", vendor, family, model);
  const auto add = [&](bool has, const char* name) {
    if (has) text += fmt::format(" {}", name);
  };
  add(avx2, "avx2");
  add(fma, "fma");
  add(avx512, "avx512");
  add(avx512_bf16, "avx512_bf16");
  add(amx_bf16, "amx_bf16");
  return text;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = detect();
  return kFeatures;
}

bool has_fast_bf16_dot(const CpuFeatures& cpu) {
  return cpu.vendor == "AuthenticAMD" && cpu.avx512_bf16;
}

Bf16Products bf16_products(const CpuFeatures& cpu) {
  return has_fast_bf16_dot(cpu) || cpu.amx_bf16 ? Bf16Products::kNative : Bf16Products::kEmulated;
}

}  // namespace runner::backends
