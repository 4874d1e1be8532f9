// Texts and numbers one behind the other, as replicas send them to each other.
#pragma once

#include <string>
#include <string_view>

namespace runner::train {

void append(std::string& packed, std::string_view text);
void append_number(std::string& packed, double number);

// Take off the front what was appended first; a text that is taken is a view of what it is taken from.  Throw
// Error(kRun) where there is not so much.
std::string_view take(std::string_view& packed);
double take_number(std::string_view& packed);

}  // namespace runner::train
