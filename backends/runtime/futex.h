// Sleeping in the kernel until a word changes; works across threads and processes with shared memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace runner::backends {

static_assert(std::atomic<uint32_t>::is_always_lock_free, "the kernel sees nothing but the word itself");

// Sleeps while `word` is `value`, until it is woken or `most` has passed; may also return spuriously.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t value, std::optional<std::chrono::nanoseconds> most = {});
void wake_sleepers(std::atomic<uint32_t>& word);

}  // namespace runner::backends
