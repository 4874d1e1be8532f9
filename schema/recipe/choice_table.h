// Tables with one row for each choice of a field. Constant data, thread-safe.
#pragma once

#include <cstddef>

#include "schema/recipe/recipe.h"

namespace runner::schema {

// Whether a table has one row for each enumerator, in order, from number `first` on. `key`: the member of a row that is
// its enumerator. For a static_assert next to the table, so that a choice without a row does not compile.
template <class Enum, class Row, class Key, size_t N>
consteval bool has_all_choices(const Row (&rows)[N], Key Row::*key, size_t first = 0) {
  static_assert(kChoices<Enum> > 0);
  if (N + first != kChoices<Enum>) return false;
  for (size_t i = 0; i < N; ++i)
    if (static_cast<Enum>(rows[i].*key) != static_cast<Enum>(i + first)) return false;
  return true;
}

}  // namespace runner::schema
