#include "backends/kernels/kernel_choices.h"

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/runtime/cpu_features.h"

namespace runner::backends {

std::string kernel_choices_json() {
  const bool native = bf16_products(cpu_features()) == Bf16Products::kNative;
  return fmt::format(R"({{"instructions": "{}", "products_f32": "oneDNN", "products_bf16": "{}"}})",
                     name_of(isa_in_use()), native ? "native" : "emulated");
}

}  // namespace runner::backends
