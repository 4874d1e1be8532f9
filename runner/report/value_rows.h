// Rows of values, of runs or of an SQL query, as a table and as comma-separated values.  Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table.h"
#include "store/queries.h"

namespace runner::report {

// Numbers are rounded, bytes are their number, no value is an empty cell.  A column without texts is aligned right.
Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::Param::Value>>& rows);
Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows);

// With a title line.  Numbers have every digit, bytes are hexadecimal, no value is empty.
std::string rows_csv(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows);

}  // namespace runner::report
