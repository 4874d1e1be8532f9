#include "store/content.h"

#include <algorithm>
#include <string>

namespace runner::store {
namespace {

// A table that references content by `content_id`, and the condition that selects its rows of run ?1.
struct User {
  const char* table;
  const char* of_run;
};
constexpr User kUsers[] = {
    {"section_content", "state_id IN (SELECT id FROM state WHERE run_id = ?1)"},
    {"artifact_content", "artifact_id IN (SELECT id FROM artifact WHERE run_id = ?1)"},
    {"source", "run_id = ?1"},
};

std::string unused() {
  std::string sql;
  for (const User& user : kUsers) {
    sql += fmt::format("{}NOT EXISTS (SELECT 1 FROM {} WHERE content_id = content.id)", sql.empty() ? "" : " AND ",
                       user.table);
  }
  return sql;
}

}  // namespace

bool equal(Bytes a, Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

ContentTable::ContentTable(Database& database)
    : database_(database),
      find_(database, "SELECT id FROM content WHERE digest = ?1"),
      insert_(database, "INSERT INTO content(digest, data) VALUES(?1, ?2)") {}

int64_t ContentTable::put(const Sha256Digest& digest, Bytes bytes) {
  if (find_.bind(bytes_of(digest)).step()) return find_.int64(0);
  insert_.bind(bytes_of(digest), bytes).run();
  new_bytes_ += static_cast<int64_t>(bytes.size());
  return database_.last_insert_id();
}

std::set<int64_t> content_of_run(Database& database, int64_t run_id) {
  std::set<int64_t> ids;
  for (const User& user : kUsers) {
    Statement rows(database, fmt::format("SELECT DISTINCT content_id FROM {} WHERE {}", user.table, user.of_run));
    for (rows.bind(run_id); rows.step();) ids.insert(rows.int64(0));
  }
  return ids;
}

void remove_unused_content(Database& database, const std::set<int64_t>& candidates) {
  Statement sweep(database, "DELETE FROM content WHERE id = ?1 AND " + unused());
  for (const int64_t id : candidates) sweep.bind(id).run();
}

void remove_unused_content(Database& database) {
  database.exec("DELETE FROM content WHERE " + unused());
}

}  // namespace runner::store
