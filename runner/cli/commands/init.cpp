#include <algorithm>
#include <filesystem>

#include "runner/cli/command.h"
#include "runner/cli/shell_word.h"
#include "runner/formats/used_files.h"
#include "runner/formats/write.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "schema/recipe/init_recipe.h"
#include "schema/recipe/json_schema.h"

namespace runner::cli {
namespace {

struct InitOptions : Options {
  std::string file;
  std::string from;  // a file to import
};

constexpr Argument kInitArguments[] = {
    {"[FILE]", "", "recipe file to write; default: recipe.yaml", &InitOptions::file},
    {"--from", "CONFIG", "import the settings of an Accelerate configuration file, such as default_config.yaml",
     &InitOptions::from}};

constexpr std::string_view kLeftOut = "left out: ";
constexpr std::string_view kStart = "start: ";
constexpr const char* kSchemaFile = "runner.schema.json";  // also the name in the recipe's first line

// Returns the commands that start the recipe on all machines; empty for a single machine.
std::vector<std::string> commands_of(const std::vector<schema::ImportedMachine>& machines, const std::string& recipe) {
  if (machines.empty()) return {};
  std::vector<std::string> hosts;
  int64_t processes = 0, most = 0;
  for (const schema::ImportedMachine& machine : machines) {
    const std::string name = machine.host.empty() ? fmt::format("HOST{}", hosts.size() + 1) : machine.host;
    hosts.push_back(fmt::format("{}:{}", name, machine.processes));
    processes += machine.processes;
    most = std::max(most, machine.processes);
  }
  const std::string list = shell_word(fmt::format("{}", fmt::join(hosts, ","))), file = shell_word(recipe);
  std::vector<std::string> commands{
      fmt::format("runner exec {} --hosts {}", file, list),
      fmt::format("mpirun -n {} --host {} --bind-to none runner exec {}", processes, list, file)};
  if (processes == most * std::ssize(machines))
    commands.push_back(
        fmt::format("runner launch slurm {} --nodes {} --tasks-per-node {}", file, machines.size(), most));
  return commands;
}

// Comments for the recipe; each is a single line.
std::vector<std::string> comments_of(const schema::ImportedConfig& config, const std::string& file,
                                     const std::vector<std::string>& commands) {
  std::vector<std::string> comments{fmt::format("Imported from {}, a configuration file of Accelerate.", file)};
  for (const std::string& text : config.left_out)
    comments.push_back(report::on_one_line(fmt::format("{}{}", kLeftOut, text)));
  for (const std::string& text : commands) comments.push_back(report::on_one_line(fmt::format("{}{}", kStart, text)));
  return comments;
}

// Removes the new recipe if that fails, so that the command can be repeated.
void write_schema(const std::filesystem::path& schema_file, const std::filesystem::path& recipe) {
  try {
    formats::write_file(schema_file, schema::json_schema(), formats::FileKind::kJson);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(recipe, ignored);
    throw;
  }
}

int init(const InitOptions& options, report::Output& out) {
  const std::filesystem::path file = options.file.empty() ? "recipe.yaml" : options.file;
  schema::ImportedConfig config;
  if (!options.from.empty()) {
    config = schema::import_accelerate_config(options.from);
    formats::remember_used_file(options.from, formats::FileRole::kInput);
  }
  const std::vector<std::string> commands = commands_of(config.machines, file.string());
  const std::string name = file.stem().string();
  formats::write_new_file(
      file, options.from.empty()
                ? schema::init_recipe(name)
                : schema::init_recipe(name, config.settings, comments_of(config, options.from, commands)));
  const std::filesystem::path schema_file = file.parent_path() / kSchemaFile;
  write_schema(schema_file, file);
  for (const std::string& text : config.left_out) out.say(fmt::format("{}{}", kLeftOut, report::on_one_line(text)));
  for (const std::string& text : commands) out.say(fmt::format("{}{}", kStart, report::on_one_line(text)));
  const std::string next = commands.empty() ? fmt::format("next: runner exec {}\n", file.string()) : "";
  out.talk(fmt::format("wrote {}, and {} for editors\n{}", file.string(), schema_file.string(), next));
  if (!options.json) return 0;
  json::Object document{{"recipe", file.string()}, {"schema", schema_file.string()}};
  if (!options.from.empty()) {
    document.emplace_back("left_out", json::list_of(config.left_out));
    document.emplace_back("commands", json::list_of(commands));
  }
  out.data(json::text(document));
  return 0;
}

}  // namespace

const Command kInitCommand{
    .name = "init",
    .group = Group::kRecipe,
    .summary = "write a starter recipe, and a JSON Schema for editors",
    .details =
        "runner.schema.json is written to the recipe's folder.  A recipe is never overwritten.  With --from,\n"
        "settings that have no counterpart are listed with the reason, in the recipe too, and so are the commands\n"
        "that start the recipe on several machines; see docs/from-accelerate.md.",
    .arguments = kInitArguments,
    .examples =
        "runner init\n"
        "runner init first.yaml\n"
        "runner init imported.yaml --from default_config.yaml",
    .other_names = "config",
    .has_json = true,
    .action = action<init>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
