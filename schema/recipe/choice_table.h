// Tables with one row for each choice of a field. Constant data, thread-safe.
#pragma once

#include <cstddef>

#include "schema/recipe/recipe.h"

namespace runner::schema {

template <class Enum, class Value>
struct ChoiceRow {
  Enum choice;
  Value value;
};

// Whether a table has one row for each choice, in order, from number `first` on. For a static_assert next to the table,
// so that a choice without a row does not compile.
template <class Enum, class Value, size_t N>
consteval bool has_all_choices(const ChoiceRow<Enum, Value> (&table)[N], size_t first = 0) {
  static_assert(kChoices<Enum> > 0);
  if (N + first != kChoices<Enum>) return false;
  for (size_t i = 0; i < N; ++i)
    if (table[i].choice != static_cast<Enum>(i + first)) return false;
  return true;
}

// Returns the value of a choice in a table that has_all_choices().
template <class Enum, class Value, size_t N>
constexpr const Value& value_of(const ChoiceRow<Enum, Value> (&table)[N], Enum choice) {
  return table[static_cast<size_t>(choice) - static_cast<size_t>(table[0].choice)].value;
}

}  // namespace runner::schema
