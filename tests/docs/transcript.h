// Compares the output of a program with the output that a document shows. Thread-safe.
#pragma once

#include <string>

namespace runner::docs {

// Returns whether the texts match, line by line. Ids of runs, times of day, durations, and text to the right of a
// plot's axis may differ. Numbers with a decimal point or an exponent may differ by a tenth. "..." matches any text in
// a line; alone on a line, any lines. Two or more blanks match two or more; blanks at the start match any number. All
// other text must be equal.
bool shows(const std::string& shown, const std::string& printed);

// Returns `shown` with as few changes as possible so that it matches `printed`. Plots are replaced as a whole.
std::string updated(const std::string& shown, const std::string& printed);

}  // namespace runner::docs
