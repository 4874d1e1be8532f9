// What the store keeps of a recipe: its hash, its resolved form, where each value came from, and its leaves.
//
// Pure functions of a ReadResult; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// One line for each optional section that exists and one, "path = value", for each value that differs from its default,
// both sorted: the same for any two recipes that ask for the same, however they are written.  The name of the run is no
// part of it; paths count from the recipe's folder, so that a copied folder keeps its identity.
std::string canonical_form(const ReadResult& result);

// SHA-256 of the canonical form, 64 hexadecimal digits.
std::string recipe_hash(const ReadResult& result);

// The recipe with every default filled in and every include, variable and argument resolved, as one JSON document that
// read_resolved reads back; paths are absolute.
std::string resolved_json(const ReadResult& result);

// {"optimizer.lr": {"kind", "file", "line", "column"}, …}; file, line and column are null for defaults and arguments.
// Paths have "written" besides: the path from the recipe's folder, which the resolved form does not tell.
std::string origins_json(const ReadResult& result);

struct FlatSetting {
  std::string path;  // "optimizer.lr", "model.hidden[0]"
  Value value;       // null, bool, int64, double or text
};

// Every leaf, lists taken apart; sorted by the path of the leaf.
std::vector<FlatSetting> flat_settings(const ReadResult& result);

}  // namespace runner::schema
