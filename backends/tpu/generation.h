// The TPU generations that can be emulated: the figures of one device, each with its source in generation.cpp.
//
// A device is what PyTorch sees as one: a core on v2 and v3, a chip from v4 on (whose cores then work as one).  Sizes
// are in bytes, where a G of XLA's messages is 2^30; rates are decimal, as vendors print them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace runner::backends::tpu {

enum class Generation : uint8_t { kV2, kV3, kV4, kV5e, kV5p, kV6e };
inline constexpr int kGenerationCount = 6;

// Elements that the vector unit of a core works on at once.
inline constexpr int64_t kVectorLanes = 8 * 128;

struct GenerationRow {
  std::string_view name;  // "v3", as in `tpu.generation`
  double matrix_flops;    // a second, bf16 inputs, one pass, all tiles full
  int64_t matrix_tile;    // rows and columns of a matrix unit
  int cores;              // of a device
  int vector_alus;        // of each lane
  double clock_hz;
  int64_t hbm_bytes;
  int64_t reserved_bytes;  // of these, by runtime and compiler
  double hbm_rate;         // bytes a second
  double link_rate;        // bytes a second over a link to the next chip, one way
  double host_rate;        // bytes a second from the host
  int devices_per_chip;
  double efficiency;        // roofline over measured time of training steps
  std::string_view origin;  // of the efficiency

  // What a program may use: the limit in RESOURCE_EXHAUSTED.
  constexpr int64_t usable_bytes() const { return hbm_bytes - reserved_bytes; }
  // Element-wise f32 operations a second.
  constexpr double vector_flops() const { return static_cast<double>(kVectorLanes * vector_alus * cores) * clock_hz; }
};

const GenerationRow& row_of(Generation generation);
std::optional<Generation> generation_of(std::string_view name);

}  // namespace runner::backends::tpu
