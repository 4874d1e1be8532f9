// What is said about the environment variables that a recipe reads.
#include "runner/cli/recipe_file.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace runner::cli {
namespace {

TEST(RecipeFile, ReadVariablesAreListed) {
  ::setenv("RS_CLI_TOKEN", "zebra-7-quartz", 1);
  ::setenv("RS_CLI_PLAIN", "open", 1);
  ::setenv("RS_CLI_FOLDER", "vault-of-zebras", 1);
  const std::string start = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 1}
optimizer: {type: sgd}
train: {epochs: 1}
secret: [RS_CLI_FOLDER]
)";
  EXPECT_EQ(environment_text(schema::read_recipe_text(start, "r.yaml")), "");
  const std::string vars =
      "vars: {a: '${env:RS_CLI_TOKEN}', b: '${env:RS_CLI_PLAIN}', c: '${env:RS_CLI_FOLDER}', "
      "d: '${env:RS_CLI_ABSENT:1}'}\n";
  EXPECT_EQ(environment_text(schema::read_recipe_text(start + vars, "r.yaml")),
            "the recipe reads from the environment: RS_CLI_TOKEN (secret), RS_CLI_PLAIN, RS_CLI_FOLDER (secret)");
  for (const char* name : {"RS_CLI_TOKEN", "RS_CLI_PLAIN", "RS_CLI_FOLDER"}) ::unsetenv(name);
}

}  // namespace
}  // namespace runner::cli
