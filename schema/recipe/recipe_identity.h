// Stored forms of a recipe: its hash, its resolved form, the origin of each value, and its leaves.
//
// Pure functions of a ReadResult; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Returns one line per optional section that exists, then one line "path = value" per value that differs from its
// default, both sorted. Recipes with the same meaning have the same form. The name of the run is not part of it. Paths
// are relative to the recipe's folder, so that a copied folder has the same form.
std::string canonical_form(const ReadResult& result);

// SHA-256 of the canonical form, 64 hexadecimal digits.
std::string recipe_hash(const ReadResult& result);

// Returns the recipe with all defaults, includes, variables and arguments resolved, as a JSON document for
// read_resolved(). Paths are absolute.
std::string resolved_json(const ReadResult& result);

// {"optimizer.lr": {"kind", "file", "line", "column"}, …}; file, line and column are null for defaults and arguments.
// Paths also have "written": the path relative to the recipe's folder, which the resolved form does not contain.
std::string origins_json(const ReadResult& result);

struct FlatSetting {
  std::string path;  // "optimizer.lr", "model.hidden[0]"
  Value value;       // null, bool, int64, double or text
};

// Returns all leaves, with one entry per list element, sorted by the path of the leaf.
std::vector<FlatSetting> flat_settings(const ReadResult& result);

}  // namespace runner::schema
