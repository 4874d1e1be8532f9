// From a recipe file and key=value arguments to a checked Recipe.
//
// All faults are found in one pass and thrown together.  Precedence: command line, recipe, included recipes (later ones
// win), defaults.  Reads files and the environment; keeps no state.  About half a millisecond for a usual recipe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/diagnostic.h"
#include "schema/base/source_text.h"
#include "schema/base/value.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe.h"

namespace runner::schema {

// One resolved value.
struct Leaf {
  std::string path;    // "optimizer.lr", "optimizer.groups[0].lr", "vars.width"
  const Field* field;  // its row of the field table; never null
  Value value;         // lengths as "10 steps", sizes in bytes, paths relative to the recipe's folder
  OriginKind origin;
  SourceMark mark;  // of the value; of a default: of the section that holds it
  Place place;      // the same in the texts
};

struct ReadResult {
  Recipe recipe;
  std::vector<Leaf> leaves;  // every field that has a value, sorted by path
  std::string file;          // as given
  std::string folder;        // of the file, "" for the current one
  std::string text;          // of the file

  struct Include {
    std::string file, text;
  };
  std::vector<Include> includes;  // in the order read; a file that is included twice is there twice

  std::vector<Leaf> sections;  // that exist, sorted by path; without values
  Report texts;                // all that it was read from

  // Null if the field has no value.
  const Leaf* find(std::string_view path) const;
  // Where a value is written, for messages about it: its own mark, else that of the nearest section, else line 1.
  SourceMark mark_of(std::string_view path) const;
  // What turns out to be wrong with a value when more is known than the recipe, there.
  Diagnostic fault(ErrorId id, std::string_view path, std::string_view message) const;
  // The row of the field table that applies to a path, such as "optimizer.groups[0].lr": the one whose conditions hold,
  // else the first; null if there is no such field.
  const Field* field_of(std::string_view path) const;
  // True if the conditions hold in this recipe.
  bool holds(std::span<const Condition> conditions) const;
  // What the field would be if it were not written; null for nothing.
  Value default_of(const Field& field) const;

 private:
  Place place_of(std::string_view path) const;
};

// Reads and checks a recipe.  Throws RecipeError with every fault, unreadable files included.
ReadResult read_recipe(const std::string& path, std::span<const std::string> overrides = {});

// The same for a text; `file` names it in messages and its folder is where relative paths start.
ReadResult read_recipe_text(std::string text, const std::string& file, std::span<const std::string> overrides = {});

// Reads what resolved_json (recipe_identity.h) wrote for a run, with changes on top.  Only overrides may hold ${…}.
// Origins are those of this reading; the run's own are stored with it.
ReadResult read_resolved(const std::string& resolved_json, std::span<const std::string> overrides = {});

}  // namespace runner::schema
