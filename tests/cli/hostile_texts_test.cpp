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

// Contains a word in the colour of errors, and ends with a line that looks like an error of the program.
constexpr std::string_view kHostile =
    "\x1b[1;31mforged\x1b[0m\x1b[31mforged\x1b]0;title\x07\x1b[8m\u009b31m\u202E\u2066\x7f\r\nerror: fake";

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

// Runs a command with colours. None may come from a hostile text, which has one before "forged" only.
void expect_own_colors(const Folder& folder, const std::string& command) {
  const Result result = run_command("timeout 60 runner --color always " + command, folder.path());
  EXPECT_LT(result.exit_code, 6) << command << '\n' << result.err;
  for (const std::string& text : {result.out, result.err}) {
    EXPECT_EQ(text.find("\x1b[1;31mforged"), std::string::npos) << command << '\n' << visible(text);
    EXPECT_EQ(text.find("\x1b[31mforged"), std::string::npos) << command << '\n' << visible(text);
  }
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
    expect_own_colors(folder, command);
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

TEST(HostileTexts, OfAHookHaveNoColors) {
  const Folder folder;
  write_text(folder / "r.yaml",
             "schema_version: 1\nname: r\nhooks: h.lua\nmodel: {type: linear}\n"
             "data: {train: {format: synthetic, samples: 8, features: [2], classes: 2}, batch_size: 4}\n"
             "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 1}\n");
  const std::string print = "(\"\\27[31mforged\\27[0m \\27[1;31mforged\\27[0m\")";
  write_text(folder / "h.lua",
             "print" + print + "\nreturn {on_run_end = function(acc) acc:print" + print + " error" + print + " end}\n");
  for (const char* command : {"check r.yaml", "plan r.yaml", "exec r.yaml --quiet", "show @last", "eval r"})
    expect_own_colors(folder, command);
  EXPECT_NE(run_command("runner --color always check r.yaml", folder.path()).err.find("\\x1b[31mforged"),
            std::string::npos);
}

}  // namespace
}  // namespace runner::cli::testing
