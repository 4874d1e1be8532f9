// Reads and checks a recipe file with key=value arguments.
//
// Finds all faults in one pass and throws them together. Precedence: command line, recipe, included recipes (later ones
// win), defaults. Reads files and the environment; has no state. Takes about half a millisecond for a usual recipe.
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
#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// One resolved value.
struct Leaf {
  std::string path;    // "optimizer.lr", "optimizer.groups[0].lr", "vars.width"
  const Field* field;  // its row of the field table; never null
  Value value;         // lengths as "10 steps", sizes in bytes, paths relative to the recipe's folder
  OriginKind origin;
  SourceMark mark;      // of the value; for a default, of its section
  Place place;          // as `mark`, in `texts`
  Value recorded = {};  // the value with references for secret variables (secrets.h); null if it has none

  // The value for records and listings.
  const Value& for_record() const { return recorded.is_null() ? value : recorded; }
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
  std::vector<Include> includes;  // in the order read; a file that is included twice occurs twice

  std::vector<EnvironmentRead> environment;  // variables that values refer to

  std::vector<Leaf> sections;  // that exist, sorted by path; without values
  Report texts;                // all source texts

  // Null if the field has no value.
  const Leaf* find(std::string_view path) const;
  // Returns the mark of a value for messages: its own, else that of the nearest section, else line 1.
  SourceMark mark_of(std::string_view path) const;
  // Whether that is in the recorded recipe of a run, which is not a file.
  bool is_recorded(std::string_view path) const;
  // Returns that place to begin a message with: "r.yaml:5:28: ", or "" in a recorded recipe.
  std::string place_text(std::string_view path) const;
  // Returns a fault at the place of a value, for checks that need more than the recipe.
  Diagnostic fault(ErrorId id, std::string_view path, std::string_view message) const;
  // Returns the row of the field table for a path such as "optimizer.groups[0].lr": the one whose conditions hold, else
  // the first; null if there is no such field.
  const Field* field_of(std::string_view path) const;
  // Whether the conditions hold in this recipe.
  bool holds(std::span<const Condition> conditions) const;
  // Returns the value that the field would have if it were not written; null if none.
  Value default_of(const Field& field) const;

  Place place_of(std::string_view path) const;
};

// Reads and checks a recipe. Throws RecipeError with every fault, unreadable files included.
ReadResult read_recipe(const std::string& path, std::span<const std::string> overrides = {});

// As read_recipe(), for a text. `file`: name in messages; its folder is the start of relative paths.
ReadResult read_recipe_text(std::string text, const std::string& file, std::span<const std::string> overrides = {});

// Gives fields values, which become their defaults: only those that the recipe does not write may be among them.
// Afterwards `recipe` and `leaves` are as if fields.yaml had these defaults.
void set_defaults(ReadResult& recipe, std::span<const std::pair<std::string, Value>> values);

// Reads the resolved_json() of a run (recipe_identity.h) with overrides. Only overrides may contain ${…}. Origins are
// those of this reading; the run's own origins are in the store. `file`: name in messages.
ReadResult read_resolved(const std::string& resolved_json, std::span<const std::string> overrides = {},
                         const std::string& file = "resolved recipe");

// Reads the options of an optimizer that a hook creates.
// `type`: a choice of optimizer.type. `options`: fields of the section `optimizer` by name; others have the recipe's
// defaults. Throws Error(kRun) with the first fault: an unknown option, a wrong type, a number out of range.
OptimizerSpec read_optimizer(std::string_view type, const ValueMap& options);

}  // namespace runner::schema
