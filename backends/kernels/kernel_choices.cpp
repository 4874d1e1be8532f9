#include "backends/kernels/kernel_choices.h"

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/runtime/cpu_features.h"

namespace runner::backends {
namespace {

// Whether oneDNN is limited to less than the CPU supports.
bool is_limited() {
  const CpuFeatures& cpu = cpu_features();
  const OneDnnLimit limit = onednn_limit();
  return (cpu.avx2 && !limit.avx2) || (cpu.avx512 && !limit.avx512) || (cpu.avx512_bf16 && !limit.avx512_bf16) ||
         (cpu.amx_bf16 && !limit.amx);
}

}  // namespace

std::string kernel_choices_json() {
  const bool native = bf16_products_in_use() == Bf16Products::kNative;
  return fmt::format(
      R"({{"instructions": "{}", "products_f32": "oneDNN{}", "products_bf16": "{}"}})", name_of(isa_in_use()),
      is_limited() ? fmt::format(", at most {}", onednn_limit().instructions) : "", native ? "native" : "emulated");
}

Bf16Products bf16_products_in_use() {
  CpuFeatures usable = cpu_features();
  const OneDnnLimit limit = onednn_limit();
  usable.avx512_bf16 = usable.avx512_bf16 && limit.avx512_bf16;
  usable.amx_bf16 = usable.amx_bf16 && limit.amx;
  return bf16_products(usable);
}

}  // namespace runner::backends
