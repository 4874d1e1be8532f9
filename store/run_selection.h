// The runs that fit a condition, in an order, with the values asked for: what `runner ls` prints.
//
// Each name of the expressions is read once for all runs; no point is ever read.  Cost: about a millisecond for each
// thousand runs and name.  Thread safety: as the Store given.
#pragma once

#include <string>
#include <vector>

#include "store/queries.h"
#include "store/run_expression.h"

namespace runner::store {

struct RunQuery {
  std::string where = {}, sort = {}, columns = {};  // expressions; empty: all runs, newest first, none
  int64_t limit = 0;                                // 0: all
  bool trash = false;                               // of the runs in the trash instead
  bool dropped_points = false;                      // count them
};

struct RunSelection {
  std::vector<RunRow> runs;
  std::vector<std::string> columns;               // titles
  std::vector<std::vector<Param::Value>> values;  // of each run, one for each column; monostate: it has none
};

// Throws RecipeError for an expression that is none, or names what no run has and no recipe could have.
RunSelection select_runs(Store& store, const RunQuery& query);

// What the expressions may name in this store: columns, and the parameters and metrics that its runs have.
std::vector<std::string> run_field_names(Store& store);

// Whether `pattern` fits the whole text.  `any` stands for any characters, `one` for one of them.
bool fits(std::string_view pattern, std::string_view text, char any, char one);

}  // namespace runner::store
