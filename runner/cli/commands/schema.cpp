#include "runner/cli/command.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/recipe/json_schema.h"

namespace runner::cli {
namespace {

int print_schema(const Options& /*options*/, report::Output& out) {
  out.data(schema::json_schema());
  return 0;
}

}  // namespace

const Command kSchemaCommand{
    .name = "schema",
    .group = Group::kRecipe,
    .summary = "print the JSON Schema of recipes",
    .details = "",
    .arguments = kNoArguments,
    .examples = "runner schema > runner.schema.json",
    .has_json = true,
    .action = action<print_schema>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
