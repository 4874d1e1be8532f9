// The tables, views and indexes of a store: completes them, or lets an older layout be read like the newest.
//
// `version`: number of migrations that were applied to the store. Thread safety: as for the given Database.
#pragma once

#include <cstdint>

namespace runner::store {

class Database;

// Applies the migrations after the first `from`, up to the first `to`. All migrations at once are applied as
// newest_layout(). Call it inside a transaction.
void apply_migrations(Database& database, int64_t from, int64_t to);

// Throws Error(kStore) if tables are missing. They cannot be created again, because their rows are lost.
void check_has_tables(Database& database, int64_t version);

// Throws Error(kStore) if the file has tables or columns of later migrations, so that its version is wrong.
void check_not_newer(Database& database, int64_t version);

// Views and indexes can be created again: they have no rows of their own.
bool lacks_views_or_indexes(Database& database, int64_t version);
void create_missing_views_and_indexes(Database& database, int64_t version);

// Creates temporary objects on the connection, without writing to the file: empty tables, views that add missing
// columns with their defaults, and the newest public views. An older layout then looks like the newest, except that its
// points may be encoded. Throws SqliteError.
void read_as_newest(Database& database, int64_t version);

}  // namespace runner::store
