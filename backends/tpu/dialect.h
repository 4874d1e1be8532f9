// How the versions of PyTorch/XLA differ. One constant per dialect; a field that is left out does not compile.
#pragma once

#include "schema/base/required.h"

namespace runner::backends::tpu {

struct Dialect {
  // Keys of graphs.
  Required<bool> bakes_scalars;            // 0, 1, −1 and attributes are constants of a graph
  Required<bool> shares_scalars;           // equal scalars share a parameter
  Required<bool> scalars_have_one_type;    // compared as written, and uploaded in the device type of f32
  Required<bool> absent_slots_are_inputs;  // optimizer slots are inputs before the first update too

  Required<bool> has_f64;           // without bf16
  Required<bool> marks_after_data;  // the loader marks a step once more after the end of the data
  Required<bool> saves_together;    // a state is saved by all ranks
};

// PyTorch/XLA 2, measured with 2.9.
inline constexpr Dialect kXla2{.bakes_scalars = true,
                               .shares_scalars = true,
                               .scalars_have_one_type = false,
                               .absent_slots_are_inputs = false,
                               .has_f64 = true,
                               .marks_after_data = true,
                               .saves_together = false};

// PyTorch/XLA 1.7.
inline constexpr Dialect kXla17{.bakes_scalars = true,
                                .shares_scalars = true,
                                .scalars_have_one_type = true,
                                .absent_slots_are_inputs = false,
                                .has_f64 = false,
                                .marks_after_data = false,
                                .saves_together = true};

// PyTorch/XLA 2 without recompilations that depend on the value of a number.
inline constexpr Dialect kClean{.bakes_scalars = false,
                                .shares_scalars = false,
                                .scalars_have_one_type = false,
                                .absent_slots_are_inputs = true,
                                .has_f64 = true,
                                .marks_after_data = true,
                                .saves_together = false};

}  // namespace runner::backends::tpu
