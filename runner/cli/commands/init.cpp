// Commands init and schema.
#include <filesystem>

#include "runner/cli/commands/commands.h"
#include "runner/formats/write.h"
#include "runner/report/format.h"
#include "schema/base/json.h"
#include "schema/recipe/init_recipe.h"
#include "schema/recipe/json_schema.h"

namespace runner::cli {
namespace {

constexpr std::string_view kLeftOut = "left out: ";
constexpr const char* kSchemaFile = "runner.schema.json";  // also the name in the recipe's first line

// Comments for the recipe; each is a single line.
std::vector<std::string> comments_of(const schema::ImportedConfig& config, const std::string& file) {
  std::vector<std::string> comments{fmt::format("Imported from {}, a configuration file of Accelerate.", file)};
  for (const std::string& text : config.left_out)
    comments.push_back(report::on_one_line(fmt::format("{}{}", kLeftOut, text)));
  return comments;
}

}  // namespace

int schema(const Options& /*options*/, report::Output& out) {
  out.data(schema::json_schema());
  return 0;
}

int init(const InitOptions& options, report::Output& out) {
  const std::filesystem::path file = options.file.empty() ? "recipe.yaml" : options.file;
  schema::ImportedConfig config;
  if (!options.from.empty()) config = schema::import_accelerate_config(options.from);
  const std::string name = file.stem().string();
  formats::write_new_file(file, options.from.empty()
                                    ? schema::init_recipe(name)
                                    : schema::init_recipe(name, config.settings, comments_of(config, options.from)));
  const std::filesystem::path schema_file = file.parent_path() / kSchemaFile;
  formats::write_file(schema_file, schema::json_schema());
  for (const std::string& text : config.left_out) out.talk(fmt::format("{}{}\n", kLeftOut, report::on_one_line(text)));
  out.talk(fmt::format("wrote {}, and {} for editors\nnext: runner exec {}\n", file.string(), schema_file.string(),
                       file.string()));
  if (!options.json) return 0;
  json::Object document{{"recipe", file.string()}, {"schema", schema_file.string()}};
  if (!options.from.empty()) document.emplace_back("left_out", json::list_of(config.left_out));
  out.data(json::text(document));
  return 0;
}

}  // namespace runner::cli
