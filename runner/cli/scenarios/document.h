// Access to JSON documents printed by commands. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/base/json.h"

namespace runner::cli::scenarios {

// Returns the value at a path of names; for example "metrics.train/loss.last" is ("metrics", "train/loss", "last").
// Returns null if there is none.
const json::Value& at(const json::Value& document, std::initializer_list<std::string_view> path);

// Returns NaN if the value is not a number.
double number(const json::Value& value);
int64_t whole(const json::Value& value);
// Returns an empty list if the value is not a list.
const json::List& list(const json::Value& value);

// Formats the batches of each rank as "0-2 6,0-1 | 3-5 2-4", with consecutive indices as intervals; "none" for a rank
// without a batch.
std::string batches_text(const json::Value& ranks);

}  // namespace runner::cli::scenarios
