#include "store/layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "store/encoded_points.h"
#include "store/migrations.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

// Returns the names that the first `version` migrations create. `kind`: TABLE, VIEW or INDEX.
std::vector<std::string_view> created_names(int64_t version, std::string_view kind) {
  const std::string create = fmt::format("CREATE {} ", kind);
  std::vector<std::string_view> names;
  for (const std::string_view sql : migrations().first(static_cast<size_t>(version)))
    for (size_t at = sql.find(create); at != std::string_view::npos; at = sql.find(create, at)) {
      at += create.size();
      const std::string_view name = sql.substr(at, sql.find_first_of("( ", at) - at);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  return names;
}

std::set<std::string, std::less<>> names_in_file(Database& database) {
  std::set<std::string, std::less<>> names;
  Statement rows(database, "SELECT name FROM main.sqlite_schema");
  while (rows.step()) names.insert(rows.text(0));
  return names;
}

// A store in memory with the first `version` migrations.
class Layout {
 public:
  explicit Layout(int64_t version) : database("the layout of a store", OpenMode::kInMemory) {
    apply_migrations(database, 0, version);
  }

  Database database;
};

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

void apply_migrations(Database& database, int64_t from, int64_t to) {
  if (from == 0 && to == std::ssize(migrations())) return database.exec(newest_layout());
  for (int64_t next = from; next < to; ++next) {
    database.exec(migrations()[static_cast<size_t>(next)]);
    if (next + 1 == kFirstVersionWithPointColumns) convert_encoded_points(database);
  }
}

void check_has_tables(Database& database, int64_t version) {
  std::vector<std::string_view> missing = created_names(version, "TABLE");
  const size_t expected = missing.size();
  const auto found = names_in_file(database);
  std::erase_if(missing, [&](std::string_view table) { return found.contains(table); });
  if (missing.empty()) return;
  if (missing.size() == expected) database.fail_damaged("it has no tables");
  database.fail_damaged(missing.size() == 1 ? fmt::format("its table {} is missing", missing[0])
                                            : fmt::format("its tables {} are missing", fmt::join(missing, ", ")));
}

void check_not_newer(Database& database, int64_t version) {
  if (names_in_file(database).empty()) return;  // a new store
  Layout given(version), newest(static_cast<int64_t>(migrations().size()));
  for (const Object& table : objects(newest.database, "table")) {
    const Columns expected = columns_of(given.database, table.name);
    for (const auto& [column, value] : columns_of(database, table.name)) {
      if (std::ranges::find(expected, column, &Columns::value_type::first) != expected.end()) continue;
      if (database.query_int64("PRAGMA user_version") != version) return;  // another process migrates the store
      database.fail_damaged(fmt::format("its schema version is {}, but the column {} of its table {} is newer", version,
                                        column, table.name));
    }
  }
}

bool lacks_views_or_indexes(Database& database, int64_t version) {
  const auto found = names_in_file(database);
  const auto is_missing = [&](std::string_view name) { return !found.contains(name); };
  return std::ranges::any_of(created_names(version, "VIEW"), is_missing) ||
         std::ranges::any_of(created_names(version, "INDEX"), is_missing);
}

void create_missing_views_and_indexes(Database& database, int64_t version) {
  if (!lacks_views_or_indexes(database, version)) return;
  Layout layout(version);
  const auto found = names_in_file(database);
  for (const char* type : {"view", "index"})
    for (const Object& object : objects(layout.database, type))
      if (!found.contains(object.name)) database.exec(object.sql);
}

void read_as_newest(Database& database, int64_t version) {
  Layout layout(static_cast<int64_t>(migrations().size()));
  Database& newest = layout.database;
  for (const Object& table : objects(newest, "table")) complete_table(database, newest, table);
  std::map<std::string, std::string> views;
  for (const Object& view : objects(database, "view")) views[view.name] = view.sql;
  for (const Object& view : objects(newest, "view")) {
    if (view.name == "points" && has_encoded_points(version)) continue;  // it decodes them
    if (views[view.name] != view.sql) database.exec(temporary(view.sql));
  }
}

}  // namespace runner::store
