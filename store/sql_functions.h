// What our connections add to SQL: the table-valued function chunk_points(data), which the view `points` needs, and the
// status of runs whose process is gone.
#pragma once

namespace runner::store {

class Database;

// Makes chunk_points(data) known on this connection.  Throws SqliteError.
void register_sql_functions(Database& database);

// Hides the views `runs`, `trash` and `attempts` behind ones whose status is 'crashed' where the process is gone, on
// this connection only: in the file the view stays plain SQL, which any program can read.
void register_live_status(Database& database);

}  // namespace runner::store
