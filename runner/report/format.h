// Numbers, sizes, times and texts as people read them.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runner::report {

// Six significant digits: "0.981481", "1e-08", "nan".
std::string rounded_text(double value);

// A rate with three digits and a magnitude: "812", "52.3k", "1.20M".
std::string short_text(double value);

// "812 B", "1.2 MiB".
std::string bytes_text(int64_t bytes);

// "3.7 us", "4.2 ms", "1.84 s", "3 min 20 s", "2 h 05 min"; "?" unless finite.
std::string duration_text(double seconds);

// "1 step", "2 steps".
std::string count_text(int64_t count, std::string_view noun);

// Ascending numbers, neighbours as their ends: "0-3,8".
std::string ranges_text(std::span<const int> numbers);

// Milliseconds since 1970 in local time: "2026-03-01 12:34:56".
std::string local_time(int64_t ms);

// Columns that UTF-8 text takes on a terminal: 0 for combining characters, 2 for wide ones, 1 for a byte that is no
// UTF-8.
int display_width(std::string_view text);

// At most `width` columns of `text`, the last being "…" where something was cut.
std::string shortened(std::string_view text, int width);

// As much of lines of text as a terminal shows without wrapping or scrolling, the cursor being below the last: at most
// `height` - 1 lines, each cut to `width` columns.  Colours take no columns.
std::string cut_to_screen(std::string_view text, int width, int height);

// Where the bytes of an output file went, behind "wrote ": "model.safetensors", "to standard output" for "-".
std::string file_text(std::string_view file);

// The text on one line: control characters, which could move the cursor, become spaces.
std::string on_one_line(std::string_view text);

// Most texts are: a look at each byte is all that they cost.
bool is_printable_ascii(std::string_view text);

}  // namespace runner::report
