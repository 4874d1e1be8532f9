// Reading a store that an older runner made, without writing to it.
//
// Migrations only add.  So a connection sees an older layout as the newest one once temporary objects, in memory, stand
// for what is missing: empty tables, views that add columns with their defaults, and the newest public views.
// Thread safety: as the Database given.
#pragma once

namespace runner::store {

class Database;

// Makes these objects on the connection.  The file is not written.  Throws SqliteError.
void read_as_newest(Database& database);

}  // namespace runner::store
