#include "runner/report/table.h"

#include <algorithm>
#include <numeric>

#include "runner/report/format.h"
#include "schema/error.h"

namespace runner::report {
namespace {

constexpr std::string_view kGap = "  ";
constexpr int kNarrowest = 8;  // columns are not cut below this

void append(std::string& line, std::string_view text, int whole, Color paint, int width, Align align, bool color) {
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

void Table::add(const std::vector<Cell>& cells) {
  RUN_ASSERT(cells.size() == columns_.size());
  for (const Cell& cell : cells) {
    const size_t begin = texts_.size();
    is_printable_ascii(cell.text) ? texts_ += cell.text : texts_ += on_one_line(cell.text);
    cells_.push_back({texts_.size(), display_width(std::string_view(texts_).substr(begin)), cell.color});
  }
}

std::vector<int> Table::widths(int limit) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].title);
    for (size_t i = c; i < cells_.size(); i += columns_.size()) width = std::max(width, cells_[i].width);
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
      const std::string& title = columns_[c].title;
      append(line, title, display_width(title), Color::kBold, column_widths[c], columns_[c].align, color);
    }
    finish_line(out, line);
  }
  size_t begin = 0, c = 0;
  for (const Kept& cell : cells_) {
    if (c > 0) line += kGap;
    const std::string_view text = std::string_view(texts_).substr(begin, cell.end - begin);
    append(line, text, cell.width, cell.color, column_widths[c], columns_[c].align, color);
    begin = cell.end;
    if (++c < columns_.size()) continue;
    finish_line(out, line);
    c = 0;
  }
  return out;
}

void Facts::add(std::string_view name, std::string value, Color color) {
  if (!value.empty()) table_.add({std::string(name), Cell(std::move(value), color)});
}

}  // namespace runner::report
