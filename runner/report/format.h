// Human-readable numbers, sizes, times and texts.
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

// A rate with three digits and a suffix: "812", "52.3k", "1.20M".
std::string short_text(double value);

// "812 B", "1.2 MiB".
std::string bytes_text(int64_t bytes);

// Formats ascending numbers, with runs as intervals: "0-3,8".
std::string ranges_text(std::span<const int> numbers);

// Formats milliseconds since 1970 in local time: "2026-03-01 12:34:56".
std::string local_time(int64_t ms);

// Returns the number of terminal columns of UTF-8 text: 0 for combining characters, 2 for wide ones, 1 for a byte that
// is not UTF-8.
int display_width(std::string_view text);

// Shortens `text` to at most `width` columns. The last one is "…" if something was cut.
std::string shortened(std::string_view text, int width);

// Returns the part of a text that a terminal shows without wrapping or scrolling, with the cursor below the last line:
// at most `height` - 1 lines, each cut to `width` columns. Colour codes take no columns.
std::string cut_to_screen(std::string_view text, int width, int height);

// Whether an output file of a command is standard output: "-" or /dev/stdout.
bool is_standard_output(std::string_view file);
// Destination of an output file, to follow "wrote ": "model.safetensors", or "to standard output".
std::string file_text(std::string_view file);

// Returns the text on one line. Unsafe characters (is_unsafe()), such as newlines, become spaces.
std::string on_one_line(std::string_view text);

// Fast check of all bytes; true for most texts.
bool is_printable_ascii(std::string_view text);

}  // namespace runner::report
