// Serialisation of texts and numbers that ranks exchange.
#pragma once

#include <string>
#include <string_view>

namespace runner::train {

void append(std::string& packed, std::string_view text);
void append_number(std::string& packed, double number);

// Remove the first text or number from the front and return it. A returned text refers to the memory of `packed`. Throw
// Error(kRun) if `packed` is too short.
std::string_view take(std::string_view& packed);
double take_number(std::string_view& packed);

}  // namespace runner::train
