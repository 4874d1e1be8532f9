// Which kernels this process computes with, for the run record and `runner doctor`.
#pragma once

#include <string>
#include <string_view>

#include "backends/runtime/cpu_features.h"

namespace runner::backends {

// {"instructions": "avx512", "products_f32": "oneDNN", "products_bf16": "native"}: all that bits may depend on.  Where
// the environment keeps oneDNN below what the CPU has, products_f32 is "oneDNN, at most avx2".
std::string kernel_choices_json();

// What the table says of this CPU, unless oneDNN may not use its bf16 instructions: then they are emulated.
Bf16Products bf16_products_in_use();

// What ONEDNN_MAX_CPU_ISA leaves of this CPU.  (matmul_dnnl.cpp)
struct OneDnnLimit {
  std::string_view instructions;  // the best that oneDNN may use: "avx2", "avx512", "amx", …
  bool avx2 = false, avx512 = false, avx512_bf16 = false, amx = false;
};
OneDnnLimit onednn_limit();

// Of the library in this process: "2.6.3".  (matmul_dnnl.cpp)
std::string onednn_version();

}  // namespace runner::backends
