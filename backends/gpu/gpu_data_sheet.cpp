#include "backends/gpu/gpu_data_sheet.h"

#include <array>

#include "backends/tensor/byte_units.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

// Sources.
// 1. memory_rate, product_flops: NVIDIA's data sheets and architecture papers: A100 (SXM4; GA100), H100 and H200 (SXM5;
//    GH100), L4 and RTX 4090 (Ada), T4 (TU104), V100 (SXM2; GV100), RTX 3090 (GA102). If they give tensor rates with
//    sparsity, this table has half. GeForce cards multiply f16 at half rate with f32 accumulation, which PyTorch uses.
//    f64 is the rate of tensor cores if they support f64.
// 2. capacity_bytes: "GPU 0 has a total capacity of 39.49 GiB" in PyTorch's messages on such cards; drivers differ by a
//    few hundred MiB.
// 3. link_rate, host_rate: the rates that NCCL assumes (topo.h, tuning.cc), not the published ones, which no transfer
//    reaches: 20 GB/s for each of V100's 6 and A100's 12 NVLinks (at most 235), 20.6 for each of H100's 18; 12 GB/s for
//    16 lanes of PCIe 3, doubled for each later generation.
constexpr FlopRates kGa100{
    .f64 = 19.5 * kTera, .f32 = 19.5 * kTera, .tf32 = 156 * kTera, .f16 = 312 * kTera, .bf16 = 312 * kTera};
constexpr FlopRates kGh100{
    .f64 = 66.9 * kTera, .f32 = 66.9 * kTera, .tf32 = 494.7 * kTera, .f16 = 989.4 * kTera, .bf16 = 989.4 * kTera};
constexpr double kPcie3 = 12 * kGiga, kPcie4 = 2 * kPcie3, kPcie5 = 2 * kPcie4;
constexpr double kSixLinks = 120 * kGiga, kTwelveLinks = 235 * kGiga, kEighteenLinks = 370.8 * kGiga;

constexpr std::array<GpuDataSheet, kGpuProductCount> kRows{{
    {.name = "a100-40g",
     .memory_bytes = 40 * kGiB,
     .capacity_bytes = 40441 * kMiB,
     .memory_rate = 1555 * kGiga,
     .product_flops = kGa100,
     .link = GpuLink::kNvlink,
     .link_rate = kTwelveLinks,
     .host_rate = kPcie4},
    {.name = "a100-80g",
     .memory_bytes = 80 * kGiB,
     .capacity_bytes = 81050 * kMiB,
     .memory_rate = 2039 * kGiga,
     .product_flops = kGa100,
     .link = GpuLink::kNvlink,
     .link_rate = kTwelveLinks,
     .host_rate = kPcie4},
    {.name = "h100",
     .memory_bytes = 80 * kGiB,
     .capacity_bytes = 81009 * kMiB,
     .memory_rate = 3350 * kGiga,
     .product_flops = kGh100,
     .link = GpuLink::kNvlink,
     .link_rate = kEighteenLinks,
     .host_rate = kPcie5},
    {.name = "h200",
     .memory_bytes = 141 * kGiB,
     .capacity_bytes = 143156 * kMiB,
     .memory_rate = 4800 * kGiga,
     .product_flops = kGh100,
     .link = GpuLink::kNvlink,
     .link_rate = kEighteenLinks,
     .host_rate = kPcie5},
    {.name = "l4",
     .memory_bytes = 24 * kGiB,
     .capacity_bytes = 22559 * kMiB,
     .memory_rate = 300 * kGiga,
     .product_flops =
         {.f64 = 0.473 * kTera, .f32 = 30.3 * kTera, .tf32 = 60 * kTera, .f16 = 121 * kTera, .bf16 = 121 * kTera},
     .link = GpuLink::kPcie,
     .link_rate = kPcie4,
     .host_rate = kPcie4},
    {.name = "t4",
     .memory_bytes = 16 * kGiB,
     .capacity_bytes = 14909 * kMiB,
     .memory_rate = 320 * kGiga,
     .product_flops = {.f64 = 0.254 * kTera, .f32 = 8.1 * kTera, .tf32 = 0, .f16 = 65 * kTera, .bf16 = 0},
     .link = GpuLink::kPcie,
     .link_rate = kPcie3,
     .host_rate = kPcie3},
    {.name = "v100",
     .memory_bytes = 32 * kGiB,
     .capacity_bytes = 32502 * kMiB,
     .memory_rate = 900 * kGiga,
     .product_flops = {.f64 = 7.8 * kTera, .f32 = 15.7 * kTera, .tf32 = 0, .f16 = 125 * kTera, .bf16 = 0},
     .link = GpuLink::kNvlink,
     .link_rate = kSixLinks,
     .host_rate = kPcie3},
    {.name = "rtx3090",
     .memory_bytes = 24 * kGiB,
     .capacity_bytes = 24259 * kMiB,
     .memory_rate = 936 * kGiga,
     .product_flops =
         {.f64 = 0.556 * kTera, .f32 = 35.6 * kTera, .tf32 = 35.6 * kTera, .f16 = 71 * kTera, .bf16 = 71 * kTera},
     .link = GpuLink::kPcie,
     .link_rate = kPcie4,
     .host_rate = kPcie4},
    {.name = "rtx4090",
     .memory_bytes = 24 * kGiB,
     .capacity_bytes = 24207 * kMiB,
     .memory_rate = 1008 * kGiga,
     .product_flops =
         {.f64 = 1.29 * kTera, .f32 = 82.6 * kTera, .tf32 = 82.6 * kTera, .f16 = 165.2 * kTera, .bf16 = 165.2 * kTera},
     .link = GpuLink::kPcie,
     .link_rate = kPcie4,
     .host_rate = kPcie4},
}};

}  // namespace

const GpuDataSheet& row_of(GpuProduct model) {
  return kRows[static_cast<size_t>(model)];
}

const GpuDataSheet* smallest_gpu_with(int64_t capacity_bytes) {
  const GpuDataSheet* smallest = nullptr;
  for (const GpuDataSheet& row : kRows)
    if (row.capacity_bytes >= capacity_bytes && (smallest == nullptr || row.capacity_bytes < smallest->capacity_bytes))
      smallest = &row;
  return smallest;
}

double product_flops(const GpuDataSheet& row, DType operands, bool allow_tf32) {
  const FlopRates& rates = row.product_flops;
  const auto rate_or_f32 = [&](double rate) { return rate > 0 ? rate : rates.f32; };
  switch (operands) {
    case DType::kF64: return rates.f64;
    case DType::kF16: return rate_or_f32(rates.f16);
    case DType::kBf16: return rate_or_f32(rates.bf16);
    case DType::kF32: return allow_tf32 ? rate_or_f32(rates.tf32) : rates.f32;
    case DType::kI64:
    case DType::kI32:
    case DType::kBool: break;
  }
  RUN_ASSERT(false && "a matrix product of integers");
  return rates.f32;
}

}  // namespace runner::backends::gpu
