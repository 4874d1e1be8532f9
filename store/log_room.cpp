#include "store/log_room.h"

namespace runner::store {

void commit_with_room(Database& database, Transaction& transaction) {
  database.flush();
  // Rolling back to a savepoint does not shrink the log file, so the space stays allocated.
  database.exec(fmt::format("SAVEPOINT room; INSERT INTO sqlite_sequence VALUES('room', zeroblob({}))", kLogRoomBytes));
  database.flush();
  database.exec("ROLLBACK TO room; RELEASE room");
  transaction.commit();
}

}  // namespace runner::store
