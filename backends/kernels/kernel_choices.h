// The kernels that this process uses, for the run record and `runner doctor`.
#pragma once

#include <string>
#include <string_view>

#include "backends/runtime/cpu_features.h"

namespace runner::backends {

// {"instructions": "avx512", "products_f32": "oneDNN", "products_bf16": "native"}: everything that bits may depend on.
// If the environment limits oneDNN to less than the CPU supports, products_f32 is "oneDNN, at most avx2".
std::string kernel_choices_json();

// Native or emulated bf16 products, by CPU (runtime/cpu_features.h); emulated if oneDNN may not use bf16 instructions.
Bf16Products bf16_products_in_use();

// Instructions that oneDNN may use on this CPU under ONEDNN_MAX_CPU_ISA. (onednn.cpp)
struct OneDnnLimit {
  std::string_view instructions;  // the widest: "avx2", "avx512", "amx", …
  bool avx2 = false, avx512 = false, avx512_bf16 = false, amx = false;
};
OneDnnLimit onednn_limit();

// Version of the loaded library: "2.6.3". (onednn.cpp)
std::string onednn_version();

}  // namespace runner::backends
