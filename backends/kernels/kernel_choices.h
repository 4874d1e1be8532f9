// The kernels that this process uses, for the run record and `runner doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/runtime/cpu_features.h"

namespace runner::backends {

// {"instructions": "avx512", "products_f32": "oneDNN", "products_bf16": "native"}: everything that bits may depend on.
// If the environment limits oneDNN to less than the CPU supports, products_f32 is "oneDNN, at most avx2".
std::string kernel_choices_json();

// Whether the elements of Aᵀ B (rows, cols) in f32, with few terms, have the same bits in a product of fewer rows.
// oneDNN's code for AVX2 rounds once or twice per term, by the distance from the last row and column. (matmul.cpp)
bool has_uniform_rows(int64_t rows, int64_t cols, int64_t terms);

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
