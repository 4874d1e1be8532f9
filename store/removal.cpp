#include "store/removal.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "schema/base/clock.h"
#include "store/content.h"
#include "store/log_room.h"
#include "store/run_store.h"
#include "store/sqlite.h"
#include "store/state_store.h"

namespace runner::store {
namespace {

std::vector<int64_t> ids(Statement& rows) {
  std::vector<int64_t> result;
  while (rows.step()) result.push_back(rows.int64(0));
  rows.reset();
  return result;
}

// Deletes checkpoints and the content that only they used. Call it inside a transaction.
void remove_states(Database& database, const std::vector<int64_t>& states) {
  Statement used(database, "SELECT DISTINCT content_id FROM section_content WHERE state_id = ?1");
  Statement remove(database, "DELETE FROM state WHERE id = ?1");
  std::set<int64_t> candidates;
  for (const int64_t state : states) {
    for (const int64_t content : ids(used.bind(state))) candidates.insert(content);
    remove.bind(state).run();
  }
  remove_unused_content(database, candidates);
}

// Returns the checkpoints from which forked runs start that have no checkpoint of their own.
std::vector<int64_t> needed_by_forks(Database& database, int64_t run_id) {
  Statement rows(
      database,
      "SELECT state.id FROM state JOIN attempt ON attempt.from_state = state.id AND attempt.run_id <> state.run_id "
      "WHERE state.run_id = ?1 AND NOT EXISTS (SELECT 1 FROM state AS own WHERE own.run_id = attempt.run_id)");
  return ids(rows.bind(run_id));
}

// Throws if a forked run still needs a checkpoint of this run. Without it, the fork could not be resumed and its
// initial state would be unknown.
void check_not_needed(Database& database, int64_t run_id) {
  const std::vector<int64_t> needed = needed_by_forks(database, run_id);
  if (needed.empty()) return;
  Statement row(database,
                "SELECT parent.uid, fork.uid FROM attempt JOIN run AS fork ON fork.id = attempt.run_id "
                "JOIN run AS parent ON parent.id = ?1 WHERE attempt.from_state = ?2 AND fork.id <> ?1 AND "
                "NOT EXISTS (SELECT 1 FROM state WHERE run_id = fork.id) ORDER BY fork.id LIMIT 1");
  row.bind(run_id, needed[0]).step();
  const std::string parent = row.text(0), fork = row.text(1);
  fail(ErrorKind::kUsage,
       "cannot remove run {}: run {} starts from its state {} and has saved no state itself; first remove that run "
       "with `runner rm --purge {}`, or let it save a state with `runner resume {}`",
       parent, fork, needed[0], fork, fork);
}

std::set<int64_t> kept_states(Store& store, int64_t run_id, const Retention& retention) {
  std::set<int64_t> kept;
  const auto keep_first = [&](const std::vector<StateInfo>& states, int64_t count) {
    for (size_t i = 0; i < states.size() && static_cast<int64_t>(i) < count; ++i) kept.insert(states[i].id);
  };
  const std::vector<StateInfo> states = list_states(store, run_id, /*for_resume=*/true);
  keep_first(states, std::max<int64_t>(1, retention.keep_last.value_or(1)));
  if (retention.keep_best) {
    const Retention::Best& best = *retention.keep_best;
    keep_first(ranked(states, best.metric, best.maximize), best.count);
  }
  for (const int64_t state : needed_by_forks(store.database(), run_id)) kept.insert(state);
  return kept;
}

// Replaces the message for a full disk: its usual advice, to free space in the store, is what failed here. SQLite also
// reports some damage as a full disk.
template <class Work>
auto removing(Store& store, Work work) {
  try {
    return work();
  } catch (const SqliteError& error) {
    if (!error.is_disk_full()) throw;
    store.check_file();
    fail(ErrorKind::kStore,
         "the disk of the store {} is full, and removing runs needs free space; free some space, or move the store to "
         "another disk",
         store.path().string());
  }
}

}  // namespace

int64_t prune_states(Store& store, int64_t run_id, const Retention& retention) {
  if (!retention.keep_last && !retention.keep_best) return 0;
  Transaction transaction(store.database(), Transaction::Kind::kWrite);
  const std::set<int64_t> kept = kept_states(store, run_id, retention);
  std::vector<int64_t> leaving;
  for (const StateInfo& state : list_states(store, run_id)) {
    if (!state.pinned && state.names.empty() && !kept.contains(state.id)) leaving.push_back(state.id);
  }
  remove_states(store.database(), leaving);
  commit_with_room(store.database(), transaction);
  return static_cast<int64_t>(leaving.size());
}

void keep_states(Store& store, int64_t run_id, const std::set<int64_t>& kept) {
  Database& database = store.database();
  const std::vector<int64_t> needed = needed_by_forks(database, run_id);
  Statement rows(database, "SELECT id FROM state WHERE run_id = ?1");
  std::vector<int64_t> leaving = ids(rows.bind(run_id));
  std::erase_if(leaving, [&](int64_t id) { return kept.contains(id) || std::ranges::count(needed, id) > 0; });
  remove_states(database, leaving);
}

void remove_run(Store& store, int64_t run_id) {
  removing(store, [&] {
    Database& database = store.database();
    Transaction transaction(database, Transaction::Kind::kWrite);
    check_not_running(store, run_id, "remove");
    check_not_needed(database, run_id);
    const std::set<int64_t> content = content_of_run(database, run_id);
    Statement(database, "DELETE FROM run WHERE id = ?1").bind(run_id).run();
    remove_unused_content(database, content);
    transaction.commit();
  });
}

void trash_run(Store& store, int64_t run_id) {
  removing(store, [&] {
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    check_not_running(store, run_id, "remove");
    Statement(store.database(), "UPDATE run SET trashed_ms = ?2 WHERE id = ?1").bind(run_id, now_ms()).run();
    transaction.commit();
  });
}

void restore_run(Store& store, int64_t run_id) {
  Statement(store.database(), "UPDATE run SET trashed_ms = NULL WHERE id = ?1").bind(run_id).run();
}

// Newest first, so that a fork is removed before the run from which it starts.
PurgeResult empty_trash(Store& store, int64_t grace_ms) {
  std::vector<std::pair<int64_t, std::string>> due;
  {
    Statement rows(store.database(), "SELECT id, uid FROM run WHERE trashed_ms <= ?1 ORDER BY id DESC");
    for (rows.bind(now_ms() - grace_ms); rows.step();) due.emplace_back(rows.int64(0), rows.text(1));
  }
  PurgeResult emptied;
  for (auto& [id, uid] : due) {
    try {
      remove_run(store, id);
      emptied.removed.push_back(std::move(uid));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      emptied.kept.push_back({std::move(uid), error.message()});
    }
  }
  return emptied;
}

TrashUse trash_use(Store& store) {
  Database& database = store.database();
  TrashUse use;
  std::set<int64_t> content;
  std::vector<int64_t> others;
  Statement runs(database, "SELECT id, trashed_ms FROM run");
  while (runs.step()) {
    if (runs.is_null(1)) {
      others.push_back(runs.int64(0));
      continue;
    }
    ++use.runs;
    use.newest_ms = std::max(use.newest_ms, runs.int64(1));
    content.merge(content_of_run(database, runs.int64(0)));
  }
  for (const int64_t run : use.runs > 0 ? others : std::vector<int64_t>())
    for (const int64_t id : content_of_run(database, run)) content.erase(id);
  Statement size(database, "SELECT length(data) FROM content WHERE id = ?1");
  for (const int64_t id : content) {
    if (size.bind(id).step()) use.bytes += size.int64(0);
    size.reset();
  }
  return use;
}

int64_t held_bytes(Store& store) {
  Database& database = store.database();
  const int64_t pages = database.query_int64("PRAGMA page_count") * database.query_int64("PRAGMA page_size");
  return std::max<int64_t>(0, static_cast<int64_t>(std::filesystem::file_size(store.path())) - pages);
}

int64_t collect_garbage(Store& store) {
  return removing(store, [&] {
    Database& database = store.database();
    const auto size = [&] { return static_cast<int64_t>(std::filesystem::file_size(store.path())); };
    {
      Transaction transaction(database, Transaction::Kind::kWrite);
      remove_unused_content(database);
      database.exec(
          "DELETE FROM recipe WHERE id NOT IN (SELECT recipe_id FROM attempt);"
          "DELETE FROM environment WHERE id NOT IN (SELECT environment_id FROM provenance)");
      transaction.commit();
    }
    store.checkpoint(1);
    const int64_t before = size();
    // VACUUM copies the file, which may not fit into memory.
    database.exec("PRAGMA temp_store = FILE; PRAGMA cache_spill = ON; VACUUM; PRAGMA temp_store = MEMORY");
    if (database.is_always_durable()) database.exec("PRAGMA cache_spill = OFF");
    store.checkpoint(1);
    return std::max<int64_t>(0, before - size());
  });
}

}  // namespace runner::store
