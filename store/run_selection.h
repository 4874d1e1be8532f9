// Selects and sorts runs by expressions, with the requested values: the data of `runner ls`.
//
// Each name in the expressions is read once for all runs; metric points are never read. Cost: about 1 ms per thousand
// runs and name. Thread safety: as for the given Store.
#pragma once

#include <string>
#include <vector>

#include "store/queries.h"

namespace runner::store {

struct RunQuery {
  std::string where = {}, sort = {}, columns = {};  // expressions; empty: all runs, newest first, no columns
  int64_t limit = 0;                                // 0: all
  bool trash = false;                               // select among the runs in the trash instead
  bool dropped_points = false;                      // whether to count them
};

struct RunSelection {
  std::vector<RunRow> runs;
  std::vector<std::string> columns;               // titles
  std::vector<std::vector<Param::Value>> values;  // one row per run, one value per column; monostate if the run has
                                                  // none
};

// Throws RecipeError if an expression is invalid, or contains a name that no run has and no recipe could have.
RunSelection select_runs(Store& store, const RunQuery& query);

// Returns the names that expressions may contain: columns, and the parameters and metrics of the runs in this store.
std::vector<std::string> run_field_names(Store& store);

}  // namespace runner::store
