// SQL extensions of runner's own connections: the table-valued function chunk_points(data), which the view `points`
// needs, and the status of crashed runs.
#pragma once

namespace runner::store {

class Database;

// Registers chunk_points(data) on this connection. Throws SqliteError.
void register_sql_functions(Database& database);

// Hides the views `runs`, `trash` and `attempts` by temporary ones whose status is 'crashed' if the process no longer
// exists. Affects this connection only: the views in the file remain plain SQL that any program can read.
void register_live_status(Database& database);

}  // namespace runner::store
