// Data sheet of the GPUs that can be emulated. Values are per device; gpu_data_sheet.cpp cites their sources.
//
// Rates are decimal, as vendors publish them; those of matrix products are dense. The table is in the order of the
// choices of `gpu.model`.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/tensor/dtype.h"

namespace runner::backends::gpu {

enum class GpuProduct : uint8_t { kA100With40g, kA100With80g, kH100, kH200, kL4, kT4, kV100, kRtx3090, kRtx4090 };
inline constexpr int kGpuProductCount = 9;

// Interconnect between the GPUs of one machine.
enum class GpuLink : uint8_t { kNvlink, kPcie };

// Floating-point operations per second; 0: not supported in hardware.
struct FlopRates {
  double f64, f32, tf32, f16, bf16;
};

struct GpuDataSheet {
  std::string_view name;    // "a100-40g", as in `gpu.model`
  int64_t memory_bytes;     // as sold
  int64_t capacity_bytes;   // total that CUDA reports, as in PyTorch's messages
  double memory_rate;       // bytes per second
  FlopRates product_flops;  // of matrix products; all other ops run at the f32 rate
  GpuLink link;
  double link_rate;  // bytes per second from each GPU to the next, one way
  double host_rate;  // bytes per second to or from pinned host memory
};

const GpuDataSheet& row_of(GpuProduct model);
// Returns the model with the least sufficient memory, or null if there is none.
const GpuDataSheet* smallest_gpu_with(int64_t capacity_bytes);

// Rate of products with operands of this dtype. Types without hardware support are computed in f32: bf16 on T4 saves
// only memory, and `allow_tf32` has no effect there, as on a real one.
double product_flops(const GpuDataSheet& row, DType operands, bool allow_tf32);

}  // namespace runner::backends::gpu
