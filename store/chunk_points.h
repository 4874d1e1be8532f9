// Table-valued SQL function chunk_points(data): one row per point of an encoded chunk. The view `points` uses it.
//
// chunk_points.cpp is compiled twice: into this library, and into the loadable extension runner_points, which gives the
// function to other programs (docs/store.md). It depends only on decode_points(). Thread-safe.
#pragma once

struct sqlite3;

namespace runner::store {

// Registers the function on a connection. Returns an SQLite result code.
int register_chunk_points(sqlite3* handle) noexcept;

}  // namespace runner::store
