// The schema's history: migrations/NNNN_*.sql, in order, embedded at build time.
//
// A store's user_version is the number of migrations it has had.  A migration is never changed after a release.
// Thread-safe: immutable.
#pragma once

#include <span>

namespace runner::store {

// Marks our files in SQLite's header: "rnnr".
inline constexpr int kApplicationId = 0x726e6e72;

// SQL texts; the first makes an empty file a store.
std::span<const char* const> migrations();

}  // namespace runner::store
