#include "tests/docs/pages.h"

#include <filesystem>
#include <iterator>
#include <locale>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "runner/cli/command.h"
#include "runner/cli/help.h"
#include "schema/base/text.h"
#include "tests/cli/command.h"
#include "tests/support/paths.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;
using cli::testing::run_command;

std::string cell(std::string_view text) {
  return replaced(text, "|", "\\|");
}

std::string argument_table(std::span<const cli::Argument> arguments) {
  std::string out = "| argument | meaning |\n|---|---|\n";
  for (const cli::Argument& argument : arguments) {
    const std::string usage =
        fmt::format("{}{}{}", argument.names(), argument.value.empty() ? "" : " ", argument.value);
    out += fmt::format("| `{}` | {} |\n", cell(usage), cell(argument.text));
  }
  return out;
}

// Returns a line of links per group of commands.
std::string command_index() {
  std::string out = "| | |\n|---|---|\n";
  for (const auto& [group, title] : cli::groups()) {
    std::string links;
    for (const cli::Command* command : cli::commands()) {
      if (command->group == group)
        links += fmt::format("{}[{}](#{})", links.empty() ? "" : ", ", *command->name, *command->name);
    }
    out += fmt::format("| {} | {} |\n", title, links);
  }
  return out;
}

constexpr std::string_view kCommandsBegin = R"(# Commands

All commands with their arguments and examples, as printed by `runner COMMAND --help` and in the manual pages. This page
is generated from the table that parses the command line (`cmake --build build --target pages`). [cli.md](cli.md)
describes what commands have in common and gives longer explanations.

)";

// Commands that create the files for the examples.
constexpr std::string_view kCommandsSetUp = R"(
The examples run in order, in a folder that contains `recipes/` and what these commands create:

```sh
runner exec recipes/wine.yaml name=traced profile.active=3 profile.repeat=1
runner exec recipes/wine.yaml name=on-tpu backend=tpu num_processes=1
runner exec recipes/wine.yaml
runner exec recipes/shakespeare_gpt.yaml name=gpt train.steps=200 eval.every='200 steps' eval.batches=2
zcat recipes/data/digits.csv.gz | head -n 50 > more-digits.csv
cut -d, -f1-64 more-digits.csv > new.csv
echo '{"distributed_type": "MULTI_CPU", "num_processes": 2}' > default_config.yaml
mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions
```
)";

constexpr std::string_view kErrorsBegin = R"(# Error catalogue

The ids of errors, with an example of each. A message has its id in brackets at the end, and `runner explain ID` prints
the explanation. All these errors end a command with exit code 2 before anything is recorded. Errors without an id (a
missing file, an unknown run, a loss that is not finite) say what to do. [errors.md](errors.md) lists the exit codes.

This page is generated from the table of error ids (`cmake --build build --target pages`), and the examples are printed
by the program. An id never changes its meaning.
)";

std::string error_entry(const schema::ErrorIdRow& row, const ErrorExample& example, const fs::path& folder) {
  std::string out = fmt::format("\n## {}\n\n{}{}.\n", row.name, std::toupper(row.text[0], std::locale::classic()),
                                row.text.substr(1));
  if (!example.recipe.empty()) {
    const std::string text = "# wrong.yaml, wrong\n" + std::string(example.recipe);
    cli::testing::write_text(folder / "wrong.yaml", text);
    out += "\n```yaml\n" + text + "```\n";
  }
  out += "\n```console\n";
  for (const std::string_view& command : example.commands) {
    const bool fails = &command == &example.commands.back();
    out += fmt::format("$ {}{}\n{}", command, fails ? "    # exits 2" : "",
                       run_command("exec 2>&1\n" + std::string(command), folder).out);
  }
  return out + "```\n";
}

// Replaces the ids of the runs in the folder's store, which are random.
std::string with_fixed_ids(std::string page, const fs::path& folder) {
  std::istringstream ids(run_command("runner sql --format csv 'SELECT run FROM runs'", folder).out);
  std::string id;
  std::getline(ids, id);  // the name of the column
  while (std::getline(ids, id)) page = replaced(page, id, "1qzq5d1315");
  return page;
}

}  // namespace

std::string command_page() {
  std::string out(kCommandsBegin);
  out += command_index() + "\nOptions of all commands:\n\n" + argument_table(cli::common_arguments());
  out += kCommandsSetUp;
  for (const cli::Command* command : cli::commands()) {
    out += fmt::format("\n## {}\n\n`runner {}`: {}.\n\n", *command->name, cli::usage_of(*command), *command->summary);
    if (!command->details->empty()) out += replaced(*command->details, "*", "\\*") + "\n\n";
    if (!command->arguments->empty()) out += argument_table(command->arguments) + '\n';
    out += fmt::format("```sh\n{}\n```\n", *command->examples);
  }
  return out;
}

std::string error_page() {
  std::string out(kErrorsBegin);
  const auto examples = error_examples();
  const cli::testing::Folder folder;
  fs::create_directory_symlink(support::source_path("recipes"), folder.path() / "recipes");
  for (const schema::ErrorIdRow& row : schema::error_ids())
    out += error_entry(row, examples[static_cast<size_t>(row.id)], folder.path());
  return with_fixed_ids(std::move(out), folder.path());
}

}  // namespace runner::docs
