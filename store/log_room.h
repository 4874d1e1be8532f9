// Room in the write-ahead log for the end of a run (docs/decisions/017-room-for-the-end.md).
//
// Thread safety: as the Database given.
#pragma once

#include "store/sqlite.h"

namespace runner::store {

// Bytes of the log that a later transaction finds.  The end of a run takes some 30 kB and its summary twice.
inline constexpr int kLogRoomBytes = 128 << 10;

// Commits if the log's file is, or can be made, kLogRoomBytes longer than what it then holds: a small transaction that
// follows fits even when the disk is full by then.  Else throws SqliteError, and nothing is committed.
// Cost: the room is written to the file each time, and left to be overwritten.
void commit_with_room(Database& database, Transaction& transaction);

}  // namespace runner::store
