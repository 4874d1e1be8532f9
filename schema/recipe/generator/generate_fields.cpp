// Build tool: turns fields.yaml into the table of fields, the structs of a recipe and the code that fills them.
//
//   generate_fields fields.yaml FOLDER
//
// Writes field_table.inc, recipe_structs.inc and recipe_readers.inc. Rejects a table that is inconsistent (unknown
// attributes, types or conditions). Tests check values, such as defaults within their ranges.
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "schema/recipe/generator/writers.h"

namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << "// Generated from schema/fields.yaml.\n" << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace runner::generator;
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate_fields fields.yaml FOLDER\n");
    return 2;
  }
  try {
    const FieldFile file = read_field_file(argv[1]);
    const std::string folder = argv[2];
    write(folder + "/field_table.inc", field_table(file));
    write(folder + "/recipe_structs.inc", recipe_structs(file));
    write(folder + "/recipe_readers.inc", recipe_readers(file));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
