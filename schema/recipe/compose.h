// Composes files and command line arguments to one tree: includes, then the recipe, then key=value arguments, each
// overriding the ones before; then replaces ${…}.
//
// Sections merge key by key; other values are replaced; null means "as if not written".
#pragma once

#include <span>
#include <string>

#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// Reads a file into a new source and returns its index. If the file cannot be read, reports it at `from`, or else at
// its own first line, and returns -1.
int load_source(OriginKind kind, const std::string& path, Report& report, const Place* from = nullptr);

// Returns the tree: `root` is a map without `include`; `complete` is false if a part could not be read.
YamlTree compose(int source, std::span<const std::string> overrides, Report& report);

}  // namespace runner::schema
