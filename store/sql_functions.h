// SQL extensions of runner's own connections: the status of crashed runs, and the table-valued function
// chunk_points(data), which the view `points` of layouts before 13 needs.
#pragma once

struct sqlite3;

namespace runner::store {

class Database;

// Registers the table-valued function chunk_points(data), one row per point of an encoded chunk (encoded_points.h).
// Returns an SQLite result code.
int register_chunk_points(sqlite3* handle) noexcept;

// Registers chunk_points(data) on this connection. Throws SqliteError.
void register_sql_functions(Database& database);

// Hides the views `runs`, `trash` and `attempts` by temporary ones whose status is 'crashed' if the process no longer
// exists. Affects this connection only: the views in the file remain plain SQL that any program can read.
void register_live_status(Database& database);

}  // namespace runner::store
