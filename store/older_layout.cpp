#include "store/older_layout.h"

#include <map>
#include <string>
#include <vector>

#include "store/migrations.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

struct Object {
  std::string name, sql;
};

std::vector<Object> objects(Database& database, std::string_view type) {
  Statement rows(database,
                 "SELECT name, sql FROM main.sqlite_schema WHERE type = ?1 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                 "ORDER BY rowid");
  std::vector<Object> found;
  for (rows.bind(type); rows.step();) found.push_back({rows.text(0), rows.text(1)});
  return found;
}

// Column names of a table with their defaults as SQL; empty if the table does not exist.
using Columns = std::vector<std::pair<std::string, std::string>>;

Columns columns_of(Database& database, const std::string& table) {
  Statement rows(database, "SELECT name, coalesce(dflt_value, 'NULL') FROM pragma_table_info(?1, 'main')");
  Columns columns;
  for (rows.bind(table); rows.step();) columns.emplace_back(rows.text(0), rows.text(1));
  return columns;
}

// Turns "CREATE TABLE …" or "CREATE VIEW …" of the schema into the statement that creates a temporary object.
std::string temporary(const std::string& sql) {
  constexpr std::string_view kCreate = "CREATE ";
  return std::string(kCreate) + "TEMP " + sql.substr(kCreate.size());
}

void complete_table(Database& database, Database& newest, const Object& table) {
  const Columns found = columns_of(database, table.name), wanted = columns_of(newest, table.name);
  if (found.empty()) return database.exec(temporary(table.sql));
  const std::map<std::string, std::string> there(found.begin(), found.end());
  std::string select;
  bool complete = true;
  for (const auto& [name, value] : wanted) {
    const bool has = there.contains(name);
    select += fmt::format("{}{}{}", select.empty() ? "" : ", ", has ? "" : value + " AS ", name);
    complete &= has;
  }
  if (!complete) database.exec(fmt::format("CREATE TEMP VIEW {0} AS SELECT {1} FROM main.{0}", table.name, select));
}

}  // namespace

void read_as_newest(Database& database) {
  Database newest("the newest layout", OpenMode::kInMemory);
  for (const char* migration : migrations()) newest.exec(migration);
  for (const Object& table : objects(newest, "table")) complete_table(database, newest, table);
  std::map<std::string, std::string> views;
  for (const Object& view : objects(database, "view")) views[view.name] = view.sql;
  for (const Object& view : objects(newest, "view")) {
    if (views[view.name] != view.sql) database.exec(temporary(view.sql));
  }
}

}  // namespace runner::store
