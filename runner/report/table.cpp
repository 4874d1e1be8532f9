#include "runner/report/table.h"

#include <algorithm>
#include <numeric>

#include "runner/report/format.h"
#include "schema/error.h"

namespace runner::report {
namespace {

constexpr std::string_view kGap = "  ";
constexpr int kNarrowest = 8;  // columns are not cut below this

void append(std::string& line, std::string_view text, Color paint, int width, Align align, bool color) {
  const int whole = display_width(text);
  const std::string cut = whole > width ? shortened(text, width) : std::string();
  const std::string_view shown = whole > width ? std::string_view(cut) : text;
  const auto padding = static_cast<size_t>(width - std::min(whole, width));
  if (align == Align::kRight) line.append(padding, ' ');
  color&& paint != Color::kNone ? line += painted(shown, paint, color) : line += shown;
  if (align == Align::kLeft) line.append(padding, ' ');
}

void finish_line(std::string& out, std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
  line.clear();
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> cells) {
  RUN_ASSERT(cells.size() == columns_.size());
  for (Cell& cell : cells) cell.text = on_one_line(cell.text);
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::widths(int limit) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c].text));
    widths.push_back(width);
  }
  if (limit == 0) return widths;
  const int gaps = static_cast<int>(kGap.size() * (columns_.size() - 1));
  int excess = std::accumulate(widths.begin(), widths.end(), gaps) - limit;
  while (excess > 0) {
    int* widest = nullptr;
    for (size_t c = 1; c < columns_.size(); ++c) {
      if (columns_[c].align == Align::kLeft && (widest == nullptr || widths[c] > *widest)) widest = &widths[c];
    }
    if (widest == nullptr || *widest <= kNarrowest) break;
    --*widest;
    --excess;
  }
  return widths;
}

std::string Table::render(int width, bool color) const {
  const std::vector<int> column_widths = widths(width);
  std::string out, line;
  const auto titled = [](const Column& column) { return !column.title.empty(); };
  if (std::any_of(columns_.begin(), columns_.end(), titled)) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += kGap;
      append(line, columns_[c].title, Color::kBold, column_widths[c], columns_[c].align, color);
    }
    finish_line(out, line);
  }
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += kGap;
      append(line, row[c].text, row[c].color, column_widths[c], columns_[c].align, color);
    }
    finish_line(out, line);
  }
  return out;
}

void Facts::add(std::string_view name, std::string value, Color color) {
  if (!value.empty()) table_.add({std::string(name), Cell(std::move(value), color)});
}

}  // namespace runner::report
