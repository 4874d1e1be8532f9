// Which kernels this process computes with, for the run record and `runner doctor`.
#pragma once

#include <string>

namespace runner::backends {

// {"instructions": "avx512", "products_f32": "oneDNN", "products_bf16": "native"}: all that bits may depend on.
std::string kernel_choices_json();

// Of the library in this process: "2.6.3".  (matmul_dnnl.cpp)
std::string onednn_version();

}  // namespace runner::backends
