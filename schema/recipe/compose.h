// From files and command line arguments to one tree: includes, then the recipe, then key=value arguments, each over the
// ones before; then ${…} is replaced.
//
// Sections merge key by key, everything else replaces; null stands for "as if not written".
#pragma once

#include <span>
#include <string>

#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// Reads a file into a new source and returns its index.  An unreadable one is reported, at `from` or, without, at its
// own first line, and gives -1.
int load_source(OriginKind kind, const std::string& path, Report& report, const Place* from = nullptr);

// root: a map, without `include`.  complete: false if a part could not be read.
YamlTree compose(int source, std::span<const std::string> overrides, Report& report);

// Purely textual: the folder part of a path, "" for none; a path that is relative to a folder, from here; a path from
// here, relative to a folder (absolute where the names alone do not tell).
std::string folder_of(const std::string& path);
std::string join_path(const std::string& folder, const std::string& path);
std::string relative_path(const std::string& folder, const std::string& path);

}  // namespace runner::schema
