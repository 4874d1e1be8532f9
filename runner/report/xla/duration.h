// Durations as the metrics report of PyTorch/XLA writes them: "04m22s555ms668.071us".
//
// Parts d, h, m, s (two digits), ms (three) and us (seven characters), from the first that is not zero on; us are
// always there.  Upstream's text has a defect, which is reproduced and undone here: it rounds every part but the last
// to the nearest whole number, and goes on with what lies above the next lower one.  So a part is printed one too high
// wherever half a unit or more stands below it: 27.920153731 s is "28s920ms153.731us". Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runner::report::xla {

enum class DurationStyle {
  kExact,     // every part is what it says
  kUpstream,  // as torch_xla prints it, from the same floating-point steps
};

// ns: not negative.  kExact rounds to whole nanoseconds.
std::string time_text(double ns, DurationStyle style);

// What a text means in each style, in nanoseconds; none where that style cannot have printed it.  Whole numbers, but
// where a rate was rounded to "1000.000us" or to half a unit: then a fraction, so that it prints as it was read.
struct DurationReading {
  std::optional<double> exact, upstream;
  // Exactly half a unit stands below a part: upstream rounds it to an even number, whichever it was.  `upstream` is the
  // lower one, where there can be one.
  bool tie = false;
};

// None: the text is no duration.  Parts of older releases are read too, which are not filled up with zeros.
std::optional<DurationReading> read_time(std::string_view text);

}  // namespace runner::report::xla
