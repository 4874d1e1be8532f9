// Durations as written in the metrics report of PyTorch/XLA: "04m22s555ms668.071us".
//
// The parts are d, h, m, s (two digits), ms (three digits) and us (seven characters), starting with the first part that
// is not zero; us is always present. Upstream's format has a defect, which this code reproduces and undoes: each part
// except the last is rounded to the nearest integer, but the remainder is computed from the integer below. Therefore a
// part is printed one too high if half a unit or more follows. For example, 27.920153731 s is printed as
// "28s920ms153.731us". Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runner::report::xla {

enum class DurationStyle {
  kExact,     // every part has its true value
  kUpstream,  // as printed by torch_xla, with the same floating-point operations
};

// `ns`: not negative. kExact rounds to whole nanoseconds.
std::string time_text(double ns, DurationStyle style);

// Meaning of a text in each style, in nanoseconds; nullopt if that style cannot print the text. The values are
// integers, except for a rate that was rounded to "1000.000us" or to half a unit. Its value has a fraction, so that it
// prints as it was read.
struct DurationReading {
  std::optional<double> exact, upstream;
  // Exactly half a unit follows a part, which upstream rounds to an even number in either direction. `upstream` is the
  // lower one of the two possible values if that is valid.
  bool tie = false;
};

// Returns nullopt if the text is not a duration. Also reads durations of older releases, which are not padded with
// zeros.
std::optional<DurationReading> read_time(std::string_view text);

}  // namespace runner::report::xla
