// The GPUs that can be emulated: the figures of one device, each with its source in gpu_model.cpp.
//
// Rates are decimal, as vendors print them, those of products dense.  A constant table, in the order of the choices of
// `gpu.model`.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/tensor/dtype.h"

namespace runner::backends::gpu {

enum class GpuModel : uint8_t { kA100With40g, kA100With80g, kH100, kH200, kL4, kT4, kV100, kRtx3090, kRtx4090 };
inline constexpr int kGpuModelCount = 9;

// How the GPUs of one box reach each other.
enum class GpuLink : uint8_t { kNvlink, kPcie };

// Floating-point operations a second; 0: the chip has no units for it.
struct FlopRates {
  double f64, f32, tf32, f16, bf16;
};

struct GpuModelRow {
  std::string_view name;    // "a100-40g", as in `gpu.model`
  int64_t memory_bytes;     // as sold
  int64_t capacity_bytes;   // of these, what CUDA has: the total of PyTorch's messages
  double memory_rate;       // bytes a second
  FlopRates product_flops;  // of products; what is no product runs at f32
  GpuLink link;
  double link_rate;  // bytes a second from each GPU to the next, one way
  double host_rate;  // bytes a second to or from pinned memory of the host
};

const GpuModelRow& row_of(GpuModel model);
// Of those that have so much memory the one with least; null: there is none.
const GpuModelRow* smallest_model_with(int64_t capacity_bytes);

// Of products with operands of this dtype.  What a chip has no units for it computes in f32: bf16 on t4, whose operands
// only take less room; and `allow_tf32` changes nothing there, as on a real one.
double product_flops(const GpuModelRow& row, DType operands, bool allow_tf32);

}  // namespace runner::backends::gpu
