// chunk_points(data): the table-valued SQL function that the view `points` needs; a row for each point in a chunk.
//
// Two programs are made of chunk_points.cpp: this library, and the loadable extension runner_points (docs/store.md),
// which gives the function to any other program.  It stands on decode_points() alone. Thread-safe.
#pragma once

struct sqlite3;

namespace runner::store {

// Makes it known on a connection.  Returns SQLite's result code.
int register_chunk_points(sqlite3* handle) noexcept;

}  // namespace runner::store
