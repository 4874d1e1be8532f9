// Reserves space in the write-ahead log for the end of a run (docs/decisions/017-reserved-space-for-run-end.md).
//
// Thread safety: as for the given Database.
#pragma once

#include "store/sqlite.h"

namespace runner::store {

// Reserved bytes. Recording the end of a run takes about 30 kB plus twice the size of its summary.
inline constexpr int kLogRoomBytes = 128 << 10;

// Commits, provided that the log file is or can be extended by kLogRoomBytes. A small later transaction then fits even
// if the disk is full. Otherwise throws SqliteError and commits nothing. Cost: writes kLogRoomBytes to the log on each
// call; the next transaction overwrites them.
void commit_with_room(Database& database, Transaction& transaction);

}  // namespace runner::store
