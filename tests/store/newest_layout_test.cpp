#include <gtest/gtest.h>

#include "store/migrations.h"
#include "store/sqlite.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::store {
namespace {

// Returns the SQL text that creates the tables, views and indexes of a database, and the rows of its table `lane`.
std::string layout_of(Database& database) {
  std::string text =
      "-- The layout of a new store: what the migrations make. Written by newest_layout_test with RUNNER_UPDATE=1.\n";
  Statement objects(
      database,
      "SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'sqlite_sequence' ORDER BY rowid");
  while (objects.step()) text += objects.text(0) + "\n";
  return text + "INSERT INTO lane VALUES" +
         database.query_text("SELECT group_concat('(' || k || ')', ', ') FROM (SELECT k FROM lane ORDER BY k)") + ";\n";
}

std::vector<std::string> tables_with_rows(Database& database) {
  std::vector<std::string> found;
  Statement tables(database,
                   "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'");
  while (tables.step())
    if (database.query_int64("SELECT count(*) FROM " + tables.text(0)) > 0) found.push_back(tables.text(0));
  return found;
}

TEST(NewestLayout, IsWhatTheMigrationsMake) {
  Database database("migrated", OpenMode::kInMemory);
  for (const char* migration : migrations()) database.exec(migration);
  EXPECT_EQ(tables_with_rows(database), std::vector<std::string>{"lane"});
  const std::string expected = layout_of(database), file = support::source_path("store/newest_layout.sql");
  if (support::should_update()) support::write_text(file, expected);
  EXPECT_EQ(support::read_text(file), expected) << "write it with RUNNER_UPDATE=1, and build again";

  Database made("made", OpenMode::kInMemory);
  made.exec(expected);
  EXPECT_EQ(layout_of(made), expected);
}

}  // namespace
}  // namespace runner::store
