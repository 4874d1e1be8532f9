#include "backends/tpu/tpu_data_sheet.h"

#include <array>

#include "backends/tensor/byte_units.h"

namespace runner::backends::tpu {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

// BERT-large, masked language modelling, fp32, 64 sequences of 512 tokens per step on a v3-8 with torch_xla 1.7: 178.4
// minutes for 10,719 steps are 0.9986 s per step. A roofline of that workload, worked out by hand, is 0.35 s. This
// model predicts 0.42 s for it, since it fuses less and has no dropout. With either value the measurement is in the
// interval [t, t / η].
constexpr double kMeasured = 0.35;
constexpr std::string_view kMeasuredOn = "measured: BERT-large, fp32, v3-8, torch_xla 1.7";
constexpr std::string_view kCarriedOver = "that of v3; not measured on this generation";

// Sources. matrix_flops, hbm_bytes, hbm_rate: cloud.google.com/tpu/docs, one page per generation, halved for v2 and v3,
// which have two devices per chip. The peaks are 2 · 128² · matrix units · clock, except for v6e: its two units of 256²
// would need an implausible clock, so the published peak is used. v5p is sold with 95 GB, but messages report 95.74 GiB
// for programs: it has six stacks of 16 GiB.
//
// clock_hz: jax/_src/tpu_info.py; v6e publishes none and is assumed to run at v5p's.
//
// vector_alus: two per lane on v2 and v3 (Norrie et al., IEEE Micro 2021), four on v5p (jax-ml/scaling-book), assumed
// for the others too.
//
// reserved_bytes: the breakdowns and limits in RESOURCE_EXHAUSTED messages: v2 "of 7.48G", "reserved 530.00M"; v3 "of
// 15.48G", "reserved 530.00M"; v4 "of 30.75G", "reserved 1.25G"; v5e "of 15.75G"; v5p "of 95.74G"; v6e "of 31.25G".
//
// link_rate: v2 and v3 496 and 656 Gbit/s (Jouppi et al., CACM 2020), the others jax-ml/scaling-book.
//
// host_rate: PCIe of about 15 GB/s per chip, 32 GB/s on v6e (jax-ml/scaling-book).
constexpr std::array<TpuDataSheet, kGenerationCount> kGenerations{{
    {.name = "v2",
     .matrix_flops = 23 * kTera,
     .matrix_tile = 128,
     .cores = 1,
     .vector_alus = 2,
     .clock_hz = 0.70 * kGiga,
     .hbm_bytes = 8 * kGiB,
     .reserved_bytes = 530 * kMiB,
     .hbm_rate = 350 * kGiga,
     .link_rate = 62 * kGiga,
     .host_rate = 7.5 * kGiga,
     .devices_per_chip = 2,
     .efficiency = kMeasured,
     .origin = kCarriedOver},
    {.name = "v3",
     .matrix_flops = 61.5 * kTera,
     .matrix_tile = 128,
     .cores = 1,
     .vector_alus = 2,
     .clock_hz = 0.94 * kGiga,
     .hbm_bytes = 16 * kGiB,
     .reserved_bytes = 530 * kMiB,
     .hbm_rate = 450 * kGiga,
     .link_rate = 82 * kGiga,
     .host_rate = 7.5 * kGiga,
     .devices_per_chip = 2,
     .efficiency = kMeasured,
     .origin = kMeasuredOn},
    {.name = "v4",
     .matrix_flops = 275 * kTera,
     .matrix_tile = 128,
     .cores = 2,
     .vector_alus = 4,
     .clock_hz = 1.05 * kGiga,
     .hbm_bytes = 32 * kGiB,
     .reserved_bytes = 1280 * kMiB,
     .hbm_rate = 1228 * kGiga,
     .link_rate = 45 * kGiga,
     .host_rate = 15 * kGiga,
     .devices_per_chip = 1,
     .efficiency = kMeasured,
     .origin = kCarriedOver},
    {.name = "v5e",
     .matrix_flops = 197 * kTera,
     .matrix_tile = 128,
     .cores = 1,
     .vector_alus = 4,
     .clock_hz = 1.50 * kGiga,
     .hbm_bytes = 16 * kGiB,
     .reserved_bytes = 256 * kMiB,
     .hbm_rate = 819 * kGiga,
     .link_rate = 45 * kGiga,
     .host_rate = 15 * kGiga,
     .devices_per_chip = 1,
     .efficiency = kMeasured,
     .origin = kCarriedOver},
    {.name = "v5p",
     .matrix_flops = 459 * kTera,
     .matrix_tile = 128,
     .cores = 2,
     .vector_alus = 4,
     .clock_hz = 1.75 * kGiga,
     .hbm_bytes = 96 * kGiB,
     .reserved_bytes = 266 * kMiB,
     .hbm_rate = 2765 * kGiga,
     .link_rate = 90 * kGiga,
     .host_rate = 15 * kGiga,
     .devices_per_chip = 1,
     .efficiency = kMeasured,
     .origin = kCarriedOver},
    {.name = "v6e",
     .matrix_flops = 918 * kTera,
     .matrix_tile = 256,
     .cores = 1,
     .vector_alus = 4,
     .clock_hz = 1.75 * kGiga,
     .hbm_bytes = 32 * kGiB,
     .reserved_bytes = 768 * kMiB,
     .hbm_rate = 1638 * kGiga,
     .link_rate = 90 * kGiga,
     .host_rate = 32 * kGiga,
     .devices_per_chip = 1,
     .efficiency = kMeasured,
     .origin = kCarriedOver},
}};

}  // namespace

const TpuDataSheet& row_of(Generation generation) {
  return kGenerations[static_cast<size_t>(generation)];
}

std::optional<Generation> generation_of(std::string_view name) {
  for (int i = 0; i < kGenerationCount; ++i)
    if (kGenerations[static_cast<size_t>(i)].name == name) return static_cast<Generation>(i);
  return std::nullopt;
}

}  // namespace runner::backends::tpu
