// Reading the documents that commands print.  Thread-safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/json.h"

namespace runner::cli::scenarios {

// What lies at a path of names, "metrics.train/loss.last" being ("metrics", "train/loss", "last"); null where there is
// nothing.
const json::Value& at(const json::Value& document, std::initializer_list<std::string_view> path);

// NaN where it is no number.
double number(const json::Value& value);
int64_t whole(const json::Value& value);
// None where it is no list.
const json::List& list(const json::Value& value);

// "0-2 6,0-1 | 3-5 2-4": the batches of each replica, runs of neighbours as their ends; "none": no batch.
std::string batches_text(const json::Value& replicas);

}  // namespace runner::cli::scenarios
