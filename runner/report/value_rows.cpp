#include "runner/report/value_rows.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <fmt/format.h>

#include "runner/formats/text_rows.h"
#include "runner/report/format.h"
#include "store/value_text.h"

namespace runner::report {
namespace {

template <class Value>
std::string cell_text(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return rounded_text(*number);
  if constexpr (std::is_same_v<Value, store::SqlValue>) {
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value))
      return fmt::format("<{} bytes>", bytes->size());
  }
  return store::text_of(value);
}

template <class Value>
Table table_of(const std::vector<std::string>& titles, const std::vector<std::vector<Value>>& rows) {
  std::vector<TableColumn> columns;
  for (size_t c = 0; c < titles.size(); ++c) {
    const auto fits = [c](const auto& row) {
      return store::is_number(row[c]) || std::holds_alternative<std::monostate>(row[c]);
    };
    columns.push_back({titles[c], std::all_of(rows.begin(), rows.end(), fits) ? Align::kRight : Align::kLeft});
  }
  Table table(std::move(columns));
  std::vector<Cell> cells;
  for (const std::vector<Value>& row : rows) {
    cells.clear();
    for (const Value& value : row) cells.emplace_back(cell_text(value));
    table.add(cells);
  }
  return table;
}

}  // namespace

Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::Param::Value>>& rows) {
  return table_of(titles, rows);
}

Table rows_table(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows) {
  return table_of(titles, rows);
}

std::string rows_csv(const std::vector<std::string>& titles, const std::vector<std::vector<store::SqlValue>>& rows) {
  std::string out = formats::csv_row(titles);
  for (const auto& row : rows) {
    std::vector<std::string> fields;
    for (const store::SqlValue& value : row) fields.push_back(store::text_of(value));
    out += formats::csv_row(fields);
  }
  return out;
}

}  // namespace runner::report
