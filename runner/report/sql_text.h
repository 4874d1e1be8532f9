// Rows of an SQL query as a table and as comma-separated values.  Thread-safe.
#pragma once

#include <string>

#include "runner/report/table.h"
#include "store/queries.h"

namespace runner::report {

// NULL is an empty cell, bytes are their number.  A column of numbers is aligned right.
Table sql_table(const store::SqlResult& result);

// With a title line.  NULL is empty, numbers have every digit, bytes are hexadecimal.
std::string sql_csv(const store::SqlResult& result);

}  // namespace runner::report
