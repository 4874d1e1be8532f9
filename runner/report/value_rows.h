// Rows of values, from runs or an SQL query, as a table and as CSV. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table.h"
#include "store/queries.h"

namespace runner::report {

// Numbers are rounded, blobs are shown as their size, null is an empty cell. A column without text is right-aligned.
Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::Param::Value>>& rows);
Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows);

// With a title line. Numbers have all digits, blobs are hexadecimal, null is empty.
std::string rows_csv(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows);

}  // namespace runner::report
