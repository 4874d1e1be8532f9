// A recipe after reading: plain values with all defaults; all names have been checked against schema/fields.yaml.
//
// The build generates the structs and enums from schema/fields.yaml: one struct for each section (ModelSpec for
// `model`), one member for each field. A field without a default is a std::optional; a text, path or list is empty
// instead. An optional section is a std::optional too. Enumerators have the names and the order of the field's
// choices; name_of() returns the name in a recipe, kChoices is their number. Sizes are bytes. Paths are resolved
// against the recipe's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/base/value.h"

namespace runner::schema {

enum class Unit { kSteps, kEpochs, kSamples, kRuns };

// count / divisor units: "100 steps", "1 epoch", "0.5 epochs", "5000 samples"; "10 %" of the run is 10 / 100 runs.
// Steps are optimizer steps.
struct Length {
  int64_t count = 0;
  Unit unit = Unit::kSteps;
  int64_t divisor = 1;  // of epochs and runs
  bool operator==(const Length&) const = default;
};

// A number, or a word that a field accepts instead; empty for a number.
template <class Number>
struct NumberOrWord {
  Number number = 0;
  std::string word = {};

  bool operator==(const NumberOrWord&) const = default;
};

// A csv column: by name, or by index from 0 (negative from the end).
struct Column {
  std::string name;  // empty: by index
  int64_t index = 0;
};

// A name of schema/recipe/metric_names.h.
struct Metric {
  std::string name;  // as recorded: "accuracy", "top_3", "f1_macro", …
  int64_t k = 0;     // top_k
};

// "balanced", a list by class, or a map by class name; otherwise empty.
struct ClassWeights {
  bool balanced = false;
  std::vector<double> by_class = {};
  std::vector<std::pair<std::string, double>> by_name = {};

  bool empty() const { return !balanced && by_class.empty() && by_name.empty(); }
};

// Renames the tensors whose whole name matches `pattern` to `text` (matched_text() of schema/base/text.h).
struct Rename {
  std::string pattern, text;

  friend bool operator==(const Rename&, const Rename&) = default;
};

template <class Enum>
inline constexpr size_t kChoices = 0;

#include "schema/recipe/recipe_structs.inc"

struct Recipe : RecipeFields {
  // optimizer.lr with optimizer.type hook: the rate of optimizers that the hook creates without one.
  std::optional<double> hook_lr;
};

}  // namespace runner::schema
