// Data sheet of the TPU generations that can be emulated. Values are per device; tpu_data_sheet.cpp cites their
// sources.
//
// A device is what PyTorch sees as one: a core on v2 and v3, a chip from v4 on (whose cores work as one). Sizes are in
// bytes; the G of XLA's messages is 2^30. Rates are decimal, as vendors publish them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace runner::backends::tpu {

enum class Generation : uint8_t { kV2, kV3, kV4, kV5e, kV5p, kV6e };
inline constexpr int kGenerationCount = 6;

// Elements that the vector unit of a core processes at once.
inline constexpr int64_t kVectorLanes = int64_t{8} * 128;

struct TpuDataSheet {
  std::string_view name;  // "v3", as in `tpu.generation`
  double matrix_flops;    // per second, bf16 operands, one pass, all tiles full
  int64_t matrix_tile;    // rows and columns of a matrix unit
  int cores;              // per device
  int vector_alus;        // per lane
  double clock_hz;
  int64_t hbm_bytes;
  int64_t reserved_bytes;  // part of hbm_bytes used by runtime and compiler
  double hbm_rate;         // bytes per second
  double link_rate;        // bytes per second over a link to the next chip, one way
  double host_rate;        // bytes per second from the host
  int devices_per_chip;
  double efficiency;        // roofline time over measured time of training steps
  std::string_view origin;  // source of the efficiency

  // Memory available to a program: the limit in RESOURCE_EXHAUSTED.
  constexpr int64_t usable_bytes() const { return hbm_bytes - reserved_bytes; }
  // Element-wise f32 operations per second.
  constexpr double vector_flops() const { return static_cast<double>(kVectorLanes * vector_alus * cores) * clock_hz; }
};

const TpuDataSheet& row_of(Generation generation);
std::optional<Generation> generation_of(std::string_view name);

}  // namespace runner::backends::tpu
