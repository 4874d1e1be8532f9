// What a terminal obeys never reaches it: a store and a recipe of somebody else are shown by every command.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schema/base/source_text.h"
#include "schema/base/text.h"
#include "store/sqlite.h"
#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"
#include "tests/support/json.h"

namespace runner::cli::testing {
namespace {

// Ends with a line that looks like an error of the program.
constexpr std::string_view kHostile = "\x1b]0;title\x07\x1b[8m\u009b31m\u202E\u2066\x7f\r\nerror: fake";

// Appends kHostile to every text of the store that no constraint fixes, except for JSON documents.
void make_hostile(const std::filesystem::path& path) {
  store::Database database(path, store::OpenMode::kReadWrite);
  std::vector<std::pair<std::string, std::string>> columns;
  store::Statement tables(database,
                          "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c "
                          "WHERE t.type = 'table' AND upper(c.type) = 'TEXT' AND c.name NOT LIKE '%json%'");
  while (tables.step()) columns.emplace_back(tables.text(0), tables.text(1));
  ASSERT_GT(columns.size(), 20U);
  for (const auto& [table, column] : columns) {
    const std::string sql = "UPDATE " + table + " SET " + column + " = " + column + " || ?1 WHERE " + column +
                            " NOT LIKE '{%' AND " + column + " <> ''";
    try {
      store::Statement(database, sql).bind(kHostile).run();
    } catch (const Error&) {  // a constraint allows certain words only
    }
  }
}

// Returns the first place that a terminal would obey, or nothing.
std::string obeyed(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if ((is_unsafe(c.code) && text[at] != '\n' && text[at] != '\t') || schema::utf8_length(text, at) == 0)
      return "U+" + std::to_string(static_cast<uint32_t>(c.code)) + " in " +
             visible(text.substr(at > 80 ? at - 80 : 0, 160));
    at += c.bytes;
  }
  return "";
}

std::string shown_by(const Folder& folder, const std::string& command) {
  const Result result = run_command("timeout 60 " + command, folder.path());
  EXPECT_LT(result.exit_code, 6) << command << '\n' << result.err;
  EXPECT_EQ(obeyed(result.out), "") << command;
  EXPECT_EQ(obeyed(result.err), "") << command;
  EXPECT_EQ(("\n" + result.out).find("\nerror: fake"), std::string::npos) << command << '\n' << visible(result.out);
  return result.out + result.err;
}

TEST(HostileTexts, OfAStoreAreEscapedByEveryCommand) {
  const Folder folder;
  make_sample_store(folder / "runner.db");
  make_hostile(folder / "runner.db");
  EXPECT_NE(shown_by(folder, "runner ls").find("wine"), std::string::npos);
  const std::string done = "0000000aaa", failed = "0000000bbb", crashed = "0000000ccc";
  for (const std::string& command :
       std::vector<std::string>{"ls --tag baseline",
                                "ls --where 'name like \"%\"'",
                                "show " + done,
                                "show " + failed,
                                "show " + crashed,
                                "metrics " + done,
                                "metrics " + done + " \"$(runner sql --format csv 'select max(metric) from metrics')\"",
                                "states " + done,
                                "diff " + done + " " + failed,
                                "diff " + done + " " + crashed,
                                "watch " + done,
                                "watch " + failed,
                                "resume " + crashed,
                                "resume " + failed,
                                "fork " + done,
                                "eval " + done,
                                "predict " + done + " x.csv",
                                "parameters " + done,
                                "graphs " + done,
                                "trace " + done,
                                "plot " + done,
                                "plot " + done + " --metric train",
                                "export " + done + " --recipe r.yaml",
                                "export " + done + " --folder out",
                                "export " + done + " --artifact tables",
                                "tag " + done + " new",
                                "note " + done + " text",
                                "show nothing",
                                "sql 'select * from runs'",
                                "sql 'select * from params'",
                                "sql 'select * from events'",
                                "verify-resume " + done,
                                "completion bash show ''",
                                "rm " + failed,
                                "ls --trash",
                                "restore " + failed,
                                "rm --purge " + failed,
                                "rm " + crashed,
                                "gc --grace 0"}) {
    shown_by(folder, "runner " + command);
    shown_by(folder, "runner --color never " + command);
  }

  for (const std::string& command :
       std::vector<std::string>{"ls", "show " + done, "metrics " + done, "states " + done, "diff " + done + " " + done,
                                "watch " + done, "sql 'select * from runs'", "export " + done + " --recipe s.yaml",
                                "tag " + done + " more", "rm " + done, "restore " + done}) {
    const Result result = run_command("runner " + command + " --json", folder.path());
    EXPECT_EQ(obeyed(result.out), "") << command;
    EXPECT_EQ(obeyed(result.err), "") << command;
    if (result.exit_code == 0) {
      EXPECT_NO_THROW(support::Json::parse(result.out)) << command << '\n' << result.out;
    }
  }
}

}  // namespace
}  // namespace runner::cli::testing
