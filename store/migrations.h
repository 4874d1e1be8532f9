// Schema migrations: migrations/NNNN_*.sql in order, embedded at build time.
//
// The user_version of a store is the number of migrations applied to it. A released migration is never changed.
// Thread-safe: immutable.
#pragma once

#include <span>

namespace runner::store {

// Application id in the SQLite header that identifies a store: "rnnr".
inline constexpr int kApplicationId = 0x726e6e72;

// Returns the SQL texts. The first one turns an empty file into a store.
std::span<const char* const> migrations();

// Returns the SQL text newest_layout.sql, which turns an empty file into what all migrations make, in a tenth of their
// time. A test writes it (CONTRIBUTING.md).
const char* newest_layout();

}  // namespace runner::store
