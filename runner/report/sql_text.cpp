#include "runner/report/sql_text.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "runner/formats/csv.h"
#include "runner/report/format.h"
#include "schema/sha256.h"

namespace runner::report {
namespace {

struct CsvText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::byte>& bytes) const {
    return hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
};

std::string cell_text(const store::SqlValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return rounded_text(*number);
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value)) return fmt::format("<{} bytes>", bytes->size());
  return std::visit(CsvText{}, value);
}

bool is_number(const store::SqlValue& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

}  // namespace

Table sql_table(const store::SqlResult& result) {
  std::vector<Column> columns;
  for (size_t c = 0; c < result.columns.size(); ++c) {
    const bool numbers = std::all_of(result.rows.begin(), result.rows.end(), [c](const auto& row) {
      return is_number(row[c]) || std::holds_alternative<std::monostate>(row[c]);
    });
    columns.push_back({result.columns[c], numbers ? Align::kRight : Align::kLeft});
  }
  Table table(std::move(columns));
  for (const auto& row : result.rows) {
    std::vector<Cell> cells;
    for (const store::SqlValue& value : row) cells.emplace_back(cell_text(value));
    table.add(cells);
  }
  return table;
}

std::string sql_csv(const store::SqlResult& result) {
  std::string out = formats::csv_line(result.columns);
  for (const auto& row : result.rows) {
    std::vector<std::string> fields;
    for (const store::SqlValue& value : row) fields.push_back(std::visit(CsvText{}, value));
    out += formats::csv_line(fields);
  }
  return out;
}

}  // namespace runner::report
