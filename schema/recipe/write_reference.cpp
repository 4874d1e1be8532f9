// Build tool: writes the files of the source tree that are generated from the field table.
//
//   write_reference SOURCE_DIR      (the target `recipe_reference` runs it)
#include <cstdio>
#include <exception>

#include <fmt/os.h>

#include "schema/recipe/json_schema.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_reference SOURCE_DIR\n");
    return 2;
  }
  try {
    const std::string root = argv[1];
    fmt::output_file(root + "/schema/runner.schema.json").print("{}", runner::schema::json_schema());
    fmt::output_file(root + "/docs/recipe.md").print("{}", runner::schema::recipe_reference());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_reference: %s\n", error.what());
    return 1;
  }
  return 0;
}
