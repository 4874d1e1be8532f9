// What a terminal obeys never reaches it: a store and a recipe of somebody else are shown by every command.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "store/sqlite.h"
#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"
#include "tests/support/json.h"

namespace runner::cli::testing {
namespace {

// Contains a word in the colour of errors, and ends with a line that looks like an error of the program.
constexpr std::string_view kHostile =
    "\x1b[1;31mforged\x1b[0m\x1b[31mforged\x1b]0;title\x07\x1b[8m\u009b31m\u202E\u2066\x7f\r\nerror: fake";
// The same in double quotes of YAML and of Lua, and what a line of Lua can contain.
constexpr std::string_view kInYaml = R"(\e]0;title\a\e[8m\x9b31m\u202E\u2066\x7f\r\nerror: fake)";
constexpr std::string_view kInLua = R"(\27]0;title\7\27[8m\u{9b}31m\u{202E}\u{2066}\127\r\nerror: fake)";
constexpr std::string_view kOnALine = "\x1b]0;title\x07\x1b[8m\u009b31m\u202E\u2066\x7f";

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
    if ((is_unsafe(c.code) && text[at] != '\n' && text[at] != '\t') || utf8_length(text, at) == 0)
      return "U+" + std::to_string(static_cast<uint32_t>(c.code)) + " in " +
             visible(text.substr(at > 80 ? at - 80 : 0, 160));
    at += c.bytes;
  }
  return "";
}

struct Command {
  std::string words;
  int exit_code;
  std::optional<int> again = {};  // if another exit code is expected when the command is repeated
};

bool has_forged_line(const std::string& text) {
  return ("\n" + text).find("\nerror: fake") != std::string::npos;
}

// Runs a command. A terminal must obey nothing of its output, which must have no line that looks like an error.
std::string shown_by(const Folder& folder, const Command& command) {
  const Result result = run_command("timeout 60 " + command.words, folder.path());
  EXPECT_EQ(result.exit_code, command.exit_code) << command.words << '\n' << visible(result.err);
  EXPECT_EQ(obeyed(result.out), "") << command.words;
  EXPECT_EQ(obeyed(result.err), "") << command.words;
  EXPECT_FALSE(has_forged_line(result.out)) << command.words << '\n' << visible(result.out);
  EXPECT_FALSE(has_forged_line(result.err)) << command.words << '\n' << visible(result.err);
  return result.out + result.err;
}

void expect_json(const Folder& folder, const Command& command) {
  const Result result = run_command("timeout 60 " + command.words + " --json", folder.path());
  EXPECT_EQ(result.exit_code, command.exit_code) << command.words << '\n' << visible(result.err);
  EXPECT_EQ(obeyed(result.out), "") << command.words;
  EXPECT_EQ(obeyed(result.err), "") << command.words;
  EXPECT_NO_THROW(support::Json::parse(result.out)) << command.words << '\n' << result.out;
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
  EXPECT_NE(shown_by(folder, {"runner ls", 0}).find("wine"), std::string::npos);
  const std::string done = "0000000aaa", failed = "0000000bbb", crashed = "0000000ccc";
  const std::string metric = " \"$(runner sql --format csv 'select max(metric) from metrics')\"";
  // 5: the digest of a recipe or of a state differs; the command then shows the rest. 3: the run has no such thing.
  for (const Command& command : std::vector<Command>{{"ls --where \"tag like '%'\"", 0},
                                                     {"ls --where 'name like \"%\"'", 0},
                                                     {"show " + done, 5},
                                                     {"show " + failed, 5},
                                                     {"show " + crashed, 5},
                                                     {"metrics " + done, 0},
                                                     {"metrics " + done + metric, 3},
                                                     {"states " + done, 0},
                                                     {"diff " + done + " " + failed, 5},
                                                     {"diff " + done + " " + crashed, 5},
                                                     {"watch " + done, 0},
                                                     {"watch " + failed, 1},
                                                     {"resume " + crashed, 5},
                                                     {"resume " + failed, 5},
                                                     {"fork " + done, 5},
                                                     {"eval " + done, 5},
                                                     {"predict " + done + " x.csv", 5},
                                                     {"graphs " + done, 3},
                                                     {"trace " + done, 3},
                                                     {"plot " + done + metric, 3},
                                                     {"plot " + done + " train/loss", 3},
                                                     {"export " + done + " --folder out", 5, /*again=*/2},
                                                     {"export " + done + " --metrics out/m.csv", 0},
                                                     {"export " + done + " --artifact tables", 3},
                                                     {"export " + done + " --model m.safetensors", 5},
                                                     {"tag " + done + " new", 0},
                                                     {"note " + done + " text", 0},
                                                     {"show nothing", 3},
                                                     {"sql 'select * from runs'", 0},
                                                     {"sql 'select * from params'", 0},
                                                     {"sql 'select * from events'", 0},
                                                     {"completion bash show ''", 0},
                                                     {"rm " + failed, 0, /*again=*/3},
                                                     {"ls --trash", 0},
                                                     {"restore " + failed, 0, /*again=*/3},
                                                     {"rm --purge " + failed, 0, /*again=*/3},
                                                     {"rm " + crashed, 2},
                                                     {"gc --grace 0", 0}}) {
    shown_by(folder, {"runner " + command.words, command.exit_code});
    shown_by(folder, {"runner --color never " + command.words, command.again.value_or(command.exit_code)});
    expect_own_colors(folder, command.words);
  }
  for (const Command& command : std::vector<Command>{{"ls", 0},
                                                     {"show " + done, 5},
                                                     {"metrics " + done, 0},
                                                     {"states " + done, 0},
                                                     {"diff " + done + " " + done, 5},
                                                     {"watch " + done, 0},
                                                     {"sql 'select * from runs'", 0},
                                                     {"export " + done + " --folder more", 5},
                                                     {"tag " + done + " more", 0},
                                                     {"rm " + done, 0},
                                                     {"restore " + done, 0}})
    expect_json(folder, {"runner " + command.words, command.exit_code});
}

// ---- recipes and hooks ---------------------------------------------------------------------------------------------

void write_hostile_recipe(const Folder& folder) {
  write_text(folder / "r.yaml", fmt::format(R"(# comment {0}
schema_version: 1
name: "name {1}"
vars: {{text: "value {1}"}}
secret: ["SECRET {1}"]
hooks: hook.lua
optimizer: {{type: sgd, lr: 0.1}}
data: {{train: {{format: csv, path: d.csv, label: label}}, batch_size: 4, split: {{eval: 0.4}}}}
eval: {{every: 1 epoch}}
train: {{epochs: 1}}
)",
                                            "\u202E\u2066", kInYaml));
  std::string rows = fmt::format("a{0},b,label\n", kOnALine);
  for (int i = 0; i < 20; ++i) rows += fmt::format("{},{},class {}{}\n", i * 0.1, i % 7, i % 2, kOnALine);
  write_text(folder / "d.csv", rows);
}

// `step`: the rest of its training_step.
std::string hostile_hook(std::string_view step) {
  return fmt::format(R"(-- comment {0}
local nn = require "nn"
local text, line = "{1}", "{0}"
return {{
  model = function(cfg)
    print(line, cfg.name:sub(1, 20), cfg.vars.text:sub(1, 20))
    return nn.Linear(cfg.features[1], cfg.outputs)
  end,
  training_step = function(acc, batch)
    {2}
    return nn.cross_entropy(acc.model(batch.features), batch.labels)
  end,
}}
)",
                     kOnALine, kInLua, step);
}

TEST(HostileTexts, OfARecipeAndItsHookAreEscaped) {
  const Folder folder;
  write_hostile_recipe(folder);
  write_text(folder / "hook.lua", hostile_hook("acc:print(line)"));
  for (const Command& command : std::vector<Command>{{"check r.yaml", 0},
                                                     {"plan r.yaml", 0},
                                                     {"explain r.yaml", 0},
                                                     {"explain r.yaml name", 0},
                                                     {"parameters r.yaml", 0},
                                                     {"exec r.yaml", 0},
                                                     {"ls", 0},
                                                     {"show @last", 0},
                                                     {"metrics @last", 0},
                                                     {"export @last --folder out", 0},
                                                     {"eval @last", 0},
                                                     {"fork @last --restart", 0},
                                                     {"verify-resume r.yaml --kills 1", 0}})
    EXPECT_FALSE(has_forged_line(shown_by(folder, {"runner " + command.words, command.exit_code}))) << command.words;
  for (const std::string command :
       {"check r.yaml", "plan r.yaml", "explain r.yaml", "parameters r.yaml", "exec r.yaml"})
    expect_json(folder, {"runner " + command, 0});
}

TEST(HostileTexts, OfWrongRecipesAndHooksAreEscaped) {
  const Folder folder;
  write_hostile_recipe(folder);
  const std::string recipe = read_text(folder / "r.yaml");
  const auto check = [&](std::string_view what, int in_run) {
    SCOPED_TRACE(what);
    shown_by(folder, {"runner check r.yaml", 2});
    shown_by(folder, {"runner exec r.yaml", in_run});
    expect_json(folder, {"runner check r.yaml", 2});
  };
  write_text(folder / "hook.lua", hostile_hook(""));
  for (const std::string& line :
       {fmt::format("\"unknown {}\": 1\n", kInYaml), fmt::format("backend: \"cpu {}\"\n", kInYaml),
        fmt::format("vars2: {{\"key {0}\": 1}}\n", kInYaml), fmt::format("seed: \"{}\"\n", kInYaml),
        fmt::format("threads: \"${{vars.{}}}\"\n", kInYaml), fmt::format("log: {{every: \"1 {}\"}}\n", kInYaml),
        fmt::format("include: [\"{}.yaml\"]\n", kInYaml), fmt::format("\u202E: [\u2066\n"),
        fmt::format("x: {}\n", kOnALine)}) {
    write_text(folder / "r.yaml", recipe + line);
    check(line, 2);
  }
  write_text(folder / "r.yaml", recipe);
  for (const char* const step :
       {"error(text)", "error({text})", "acc:log({[text] = 1})", "acc[text]()", "nn[text]()", "batch[text]()",
        "local t = nil; t[text].x = 1", "batch.features:reshape(text)", "batch.features:cast(text)", "optim[text] = 1",
        "acc:save_state(text)", "do return {loss = text} end", "do return {[text] = 1} end"}) {
    write_text(folder / "hook.lua", hostile_hook(step));
    check(step, 1);
  }
  write_text(folder / "hook.lua", fmt::format("return {{[\"{}\"] = function() end}}", kInLua));
  check("unknown entry", 2);
  write_text(folder / "hook.lua", hostile_hook("syntax error \u202E\u2066"));
  check("syntax error", 2);
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
