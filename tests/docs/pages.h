// Generates the pages of docs/ that come from tables: commands, error ids, folders, decisions.
//
// The target `pages` writes them; a test compares them. Not thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/diagnostic.h"

namespace runner::docs {

// Returns docs/commands.md: every command with its arguments and examples.
std::string command_page();

// Returns docs/error_catalogue.md: every error id with an example. Runs the examples to get their output.
std::string error_page();

// Returns docs/structure.md: the folders of the source tree, their sizes, and what each may include.
std::string structure_page();

// Returns the decision records, relative to the source tree, sorted.
std::vector<std::string> decisions();

// Returns docs/decisions/README.md: the title and the first sentence of each decision. Throws std::runtime_error naming
// a record that lacks one of them.
std::string decision_page();

// An example of an error.
struct ErrorExample {
  schema::ErrorId id;
  std::string_view recipe;                 // text of wrong.yaml after its first line, or empty
  std::vector<std::string_view> commands;  // the last one fails with exit code 2; the others print nothing
};

// One per id, in the order of schema::error_ids().
std::span<const ErrorExample> error_examples();

}  // namespace runner::docs
