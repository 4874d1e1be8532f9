// Build tool: writes the pages of docs/ that are generated from tables.
//
//   write_pages SOURCE_DIR      (the target `pages` runs it)
#include <cstdio>

#include "tests/cli/command.h"
#include "tests/docs/pages.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_pages SOURCE_DIR\n");
    return 2;
  }
  const std::filesystem::path docs = std::filesystem::path(argv[1]) / "docs";
  runner::cli::testing::write_text(docs / "commands.md", runner::docs::command_page());
  runner::cli::testing::write_text(docs / "error_catalogue.md", runner::docs::error_page());
  runner::cli::testing::write_text(docs / "structure.md", runner::docs::structure_page());
  runner::cli::testing::write_text(docs / "decisions" / "README.md", runner::docs::decision_page());
  return 0;
}
