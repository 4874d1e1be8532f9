// init, schema.
#include <filesystem>

#include "runner/cli/commands/commands.h"
#include "runner/formats/write.h"
#include "schema/init_recipe.h"
#include "schema/json.h"
#include "schema/json_schema.h"

namespace runner::cli {
namespace {

constexpr const char* kSchemaFile = "runner.schema.json";  // the name in the recipe's first line

}  // namespace

int schema(const Options& /*options*/, report::Output& out) {
  out.data(schema::json_schema());
  return 0;
}

int init(const Options& options, report::Output& out) {
  const std::filesystem::path file = options.file.empty() ? "recipe.yaml" : options.file;
  formats::write_new_file(file, schema::init_recipe(file.stem().string()));
  const std::filesystem::path schema_file = file.parent_path() / kSchemaFile;
  formats::write_file(schema_file, schema::json_schema());
  out.talk(fmt::format("wrote {}, and {} for editors\nnext: runner exec {}\n", file.string(), schema_file.string(),
                       file.string()));
  if (options.json) out.data(json::text(json::Object{{"recipe", file.string()}, {"schema", schema_file.string()}}));
  return 0;
}

}  // namespace runner::cli
