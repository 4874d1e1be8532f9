// Settings of the trainings of scenarios. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::cli::scenarios {

using Words = std::vector<std::string>;

// Appends settings. Those in `more` replace earlier ones with the same key.
Words with(Words settings, const Words& more);

std::string processes(int count);
std::string samples(int64_t count);
std::string batch_size(int64_t size);

// An optimizer step of `size` samples, split between `count` processes and `accumulation` batches of each.
Words global_batch(int64_t size, int count, int64_t accumulation = 1);

// Three processes with one batch each.
Words short_run();

// Dropout, a stateful optimizer, a schedule and accumulation: a training with all kinds of state.
Words rich_training();

inline constexpr double kRounding = 1e-6;  // relative error of sums in another order

}  // namespace runner::cli::scenarios
