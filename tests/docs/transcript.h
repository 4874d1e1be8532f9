// Whether a program printed what a document shows.  Thread-safe.
#pragma once

#include <string>

namespace runner::docs {

// Compares line by line.  What differs from run to run and from machine to machine need not agree: ids of runs, times
// of day, durations, what stands to the right of a plot's axis; a number with a decimal point or an exponent agrees
// within a tenth.  "..." stands for any text in a line, and on a line of its own for any lines.  Two blanks or more
// match any number of them from two on, blanks at the start any number.  Everything else agrees to the letter.
bool shows(const std::string& shown, const std::string& printed);

// Returns `shown` with as few changes as possible so that it shows `printed`.  A plot is replaced as a whole.
std::string updated(const std::string& shown, const std::string& printed);

}  // namespace runner::docs
