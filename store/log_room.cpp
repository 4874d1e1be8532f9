#include "store/log_room.h"

namespace runner::store {

void commit_with_room(Database& database, Transaction& transaction) {
  database.flush();
  // What is written to the log and taken back leaves the file as long as it was with it.
  database.exec(fmt::format("SAVEPOINT room; INSERT INTO sqlite_sequence VALUES('room', zeroblob({}))", kLogRoomBytes));
  database.flush();
  database.exec("ROLLBACK TO room; RELEASE room");
  transaction.commit();
}

}  // namespace runner::store
