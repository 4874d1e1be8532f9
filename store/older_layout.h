// Reads a store that an older version of runner created, without writing to it.
//
// Migrations only add to the schema. Temporary objects in memory therefore make an older layout look like the newest:
// empty tables, views that add missing columns with their defaults, and the newest public views. Thread safety: as for
// the given Database.
#pragma once

namespace runner::store {

class Database;

// Creates the temporary objects on the connection. Does not write to the file. Throws SqliteError.
void read_as_newest(Database& database);

}  // namespace runner::store
