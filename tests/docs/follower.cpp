#include "tests/docs/follower.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "schema/base/json.h"
#include "tests/docs/transcript.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"
#include "tests/support/sanitizers.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;
using cli::testing::read_text;
using cli::testing::Result;
using cli::testing::run_command;
using cli::testing::write_text;
using support::Pattern;

bool succeeds(const std::string& command) {
  return run_command(command, fs::temp_directory_path()).exit_code == 0;
}

bool is_here(const std::string& program) {
  return !support::kSanitized && succeeds("command -v " + program);
}

// Whether the command builds the tree, which takes too long here.
bool builds(const TypedCommand& command) {
  return command.text.starts_with("make ") || command.text.starts_with("cmake ");
}

// Whether continuous integration runs the command. Its `make test` includes the `cmake` lines.
bool is_integrated(const TypedCommand& command) {
  static const Pattern target("^make [a-z]+");
  const auto found = target.find(command.text);
  return !found || read_text(support::source_path(".ci/run")).find("\n" + found->at(0)) != std::string::npos;
}

// Returns digits.yaml with the sections of `part` instead of its own.
std::string completed(const std::string& part) {
  static const Pattern key("^([a-z_]+):");
  std::set<std::string> sections;
  for (const std::string& line : lines_of(part)) {
    if (const auto found = key.find(line)) sections.insert(found->at(1));
  }
  std::string text;
  bool kept = true;
  for (const std::string& line : lines_of(read_text(support::source_path("recipes/digits.yaml")))) {
    if (const auto found = key.find(line)) kept = !sections.contains(found->at(1));
    if (kept) text += line + '\n';
  }
  return text + part;
}

std::string quoted(const std::string& text) {
  return "'" + Pattern("'").replace_all(text, R"('\'')") + "'";
}

}  // namespace

Follower::Follower(std::string document, bool updates) : document_(std::move(document)), updates_(updates) {
  fs::create_directory_symlink(support::source_path("recipes"), folder_.path() / "recipes");
}

void Follower::follow(const Block& block) {
  struct Language {
    const char* name;
    void (Follower::*run)(const Block&);
  };
  static constexpr Language kLanguages[] = {
      {"sh", &Follower::run_shell},      {"console", &Follower::run_console},
      {"yaml", &Follower::check_recipe}, {"lua", &Follower::load_hook},
      {"sql", &Follower::ask},           {"json", &Follower::parse_json},
      {"python", &Follower::run_python}, {"program", &Follower::compare_program},
  };
  const std::string program = block.language == "python" ? "python3" : block.needs;
  if (!program.empty() && !is_here(program)) {
    missing_.push_back(fmt::format("{}:{} needs {}", document_, block.line, program));
    return;
  }
  const auto* const language = std::find_if(std::begin(kLanguages), std::end(kLanguages),
                                            [&](const Language& row) { return block.language == row.name; });
  if (language == std::end(kLanguages)) {
    fail(block.line, fmt::format("unknown block language \"{}\"", block.language));
  } else {
    (this->*language->run)(block);
  }
}

void Follower::run_shell(const Block& block) {
  const std::vector<TypedCommand> commands = shell_commands(block);
  if (std::all_of(commands.begin(), commands.end(), builds)) {
    for (const TypedCommand& command : commands) {
      if (!is_integrated(command)) fail(command.line, ".ci/run does not run this");
    }
    return;
  }
  // One shell runs the whole block, so that cd and export affect later lines. It records the current line in a file.
  const cli::testing::Folder notes;
  const std::string place = (notes.path() / "line").string();
  std::string script;
  for (const TypedCommand& command : commands) {
    script += fmt::format("echo {} >'{}'\n{}\n[ $? -eq {} ] || exit 99\n", command.line, place, command.text,
                          command.exit_code);
  }
  const Result result = run_command(script, folder_.path());
  if (result.exit_code == 0) return;
  const std::string line = read_text(place);
  fail(line.empty() ? block.line : std::stoi(line), "the command has another exit code\n" + result.err);
}

void Follower::run_console(const Block& block) {
  for (const TypedCommand& command : console_commands(block)) {
    const std::string& text = command.text;
    const Result result = command.press ? cli::testing::run_until_progress(text, folder_.path())
                                        : run_command("exec 2>&1\n" + text, folder_.path());
    if (result.exit_code != command.exit_code)
      fail(command.line,
           fmt::format("exit code {} instead of {}\n{}", result.exit_code, command.exit_code, result.out));
    compare_shown(command, result.out);
  }
}

void Follower::compare_shown(const TypedCommand& command, const std::string& printed) {
  if (shows(command.shown, printed)) return;
  if (updates_)
    changes_.push_back({command.shown_line, command.shown, updated(command.shown, printed)});
  else
    fail(command.line, fmt::format("{}\n-- shown --\n{}-- printed --\n{}", command.text, command.shown, printed));
}

void Follower::check_recipe(const Block& block) {
  static const Pattern name(R"(^# ([\w./-]+\.yaml)(, wrong)?\n)");
  if (const auto found = name.find(block.text)) {
    const std::string& file = found->at(1);
    fs::create_directories((folder_.path() / file).parent_path());
    write_text(folder_.path() / file, block.text);
    expect(block.line, "runner check --static " + file, found->at(2).empty() ? 0 : 2);
  } else {  // a part of a recipe
    const fs::path part = folder_.path() / "part_of_a_recipe.yaml";
    write_text(part, completed(block.text));
    expect(block.line, "runner check --static part_of_a_recipe.yaml", 0);
    fs::remove(part);
  }
}

void Follower::load_hook(const Block& block) {
  static const Pattern name(R"(^-- ([\w./-]+\.lua)\n)"), model(R"(\bmodel = )"), settings(R"((?:^|\n)-- with (.+))");
  const auto first_group = [&](const Pattern& pattern, const char* otherwise) {
    const auto found = pattern.find(block.text);
    return found ? found->at(1) : otherwise;
  };
  const std::string file = first_group(name, "unnamed_hook.lua");
  fs::create_directories((folder_.path() / file).parent_path());
  write_text(folder_.path() / file, block.text);
  // A short training on the digits.
  const bool has_model = model.occurs_in(block.text);
  write_text(
      folder_.path() / "hooked.yaml",
      fmt::format("schema_version: 1\nhooks: {}\nvars: {{width: 16}}\n{}"
                  "data:\n  train: {{format: csv, path: recipes/data/digits.csv.gz, label: label, scale: 0.0625}}\n"
                  "  split: {{eval: 0.2}}\n  batch_size: 32\noptimizer: {{type: adamw}}\ntrain: {{steps: 50}}\n",
                  file, has_model ? "" : "model: {type: mlp, hidden: [16]}\n"));
  expect(block.line, "runner exec hooked.yaml --quiet --db hooked.db " + first_group(settings, ""), 0);
  for (const char* left : {"hooked.yaml", "hooked.db", "unnamed_hook.lua"}) fs::remove(folder_.path() / left);
}

void Follower::ask(const Block& block) {
  expect(block.line, "runner sql " + quoted(block.text), 0);
}

void Follower::parse_json(const Block& block) {
  if (json::parse(block.text).is_null()) fail(block.line, "invalid JSON");
}

void Follower::run_python(const Block& block) {
  write_text(folder_.path() / "block.py", block.text);
  expect(block.line, "python3 block.py", 0);
}

void Follower::compare_program(const Block& block) {
  static const std::vector<std::string> step =
      lines_of(read_text(support::source_path("tests/backends/ir/mlp_step.txt")));
  auto from = step.begin();
  for (const std::string& line : lines_of(block.text)) {
    from = std::find(from, step.end(), line);
    if (from == step.end()) return fail(block.line, "not in mlp_step.txt, or not in this order: " + line);
  }
}

Result Follower::expect(int line, const std::string& command, int exit_code) {
  Result result = run_command(command, folder_.path());
  if (result.exit_code != exit_code)
    fail(line, fmt::format("exit code {} instead of {}\n{}", result.exit_code, exit_code, result.out + result.err));
  return result;
}

void Follower::fail(int line, const std::string& what) {
  failures_.push_back(fmt::format("{}:{}: {}", document_, line, what));
}

}  // namespace runner::docs
