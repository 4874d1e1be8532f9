#include "runner/report/table.h"

#include <algorithm>
#include <numeric>

#include "runner/report/format.h"
#include "schema/base/error.h"

namespace runner::report {
namespace {

constexpr std::string_view kGap = "  ";
constexpr int kNarrowest = 8;     // minimum width of text columns in the first pass
constexpr int kShortTitle = 4;    // minimum width of titles of numeric columns
constexpr int kNarrowFirst = 12;  // minimum width of the first column, which names the row, before other columns are
                                  // cut completely

void append(std::string& line, std::string_view text, int whole, Color paint, int width, Align align, bool color) {
  const std::string cut = whole > width ? shortened(text, width) : std::string();
  const std::string_view shown = whole > width ? std::string_view(cut) : text;
  // The cut text may be one column short if a wide character did not fit.
  const auto padding = static_cast<size_t>(width - (whole > width ? display_width(cut) : whole));
  if (align == Align::kRight) line.append(padding, ' ');
  color&& paint != Color::kNone ? line += painted(shown, paint, color) : line += shown;
  if (align == Align::kLeft) line.append(padding, ' ');
}

// Takes `excess` columns from the widest columns, without going below their minimum, until nothing is left to take.
void shrink(std::vector<int>& widths, const std::vector<int>& least, int& excess) {
  for (; excess > 0; --excess) {
    size_t widest = widths.size();
    for (size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] > least[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// Total width, including gaps.
int total(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), static_cast<int>(kGap.size() * (widths.size() - 1)));
}

void finish_line(std::string& out, std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
  line.clear();
}

}  // namespace

Table::Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {
  for (TableColumn& column : columns_) column.title = on_one_line(column.title);
}

void Table::add(const std::vector<Cell>& cells) {
  RUN_ASSERT(cells.size() == columns_.size());
  for (const Cell& cell : cells) {
    const size_t begin = texts_.size();
    is_printable_ascii(cell.text) ? texts_ += cell.text : texts_ += on_one_line(cell.text);
    cells_.push_back({texts_.size(), display_width(std::string_view(texts_).substr(begin)), cell.color});
  }
}

// Width of the widest cell of each column; 0 if it has no cells.
std::vector<int> Table::cell_widths() const {
  std::vector<int> widths(columns_.size(), 0);
  for (size_t i = 0; i < cells_.size(); ++i) {
    int& width = widths[i % columns_.size()];
    width = std::max(width, cells_[i].width);
  }
  return widths;
}

std::vector<int> Table::widths(int limit) const {
  const std::vector<int> cells = cell_widths();
  std::vector<int> widths, least, one(columns_.size(), 1);
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(std::max(cells[c], display_width(columns_[c].title)));
    // Numbers must keep all digits; a title is still readable if it is cut.
    least.push_back(c == 0                              ? widths[c]
                    : columns_[c].align == Align::kLeft ? kNarrowest
                                                        : std::max(cells[c], kShortTitle));
  }
  if (limit == 0) return widths;
  int excess = total(widths) - limit;
  shrink(widths, least, excess);
  least[0] = kNarrowFirst;
  shrink(widths, least, excess);
  one[0] = kNarrowFirst;
  shrink(widths, one, excess);
  return widths;
}

int Table::width() const {
  return total(widths(0));
}

std::string Table::render(int width, bool color) const {
  const std::vector<int> column_widths = widths(width);
  std::string out, line;
  const auto titled = [](const TableColumn& column) { return !column.title.empty(); };
  if (std::any_of(columns_.begin(), columns_.end(), titled)) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += kGap;
      const std::string& title = columns_[c].title;
      append(line, title, display_width(title), Color::kBold, column_widths[c], columns_[c].align, color);
    }
    finish_line(out, line);
  }
  size_t begin = 0, c = 0;
  for (const CellEntry& cell : cells_) {
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

void KeyValueTable::add(std::string_view name, const std::string& value, Color color) {
  if (value.empty()) return;
  const size_t end = value.find('\n');
  table_.add({std::string(name), Cell(value.substr(0, end), color)});
  for (size_t at = end; at != std::string::npos;) {
    const size_t begin = at + 1;
    at = value.find('\n', begin);
    table_.add({"", value.substr(begin, at == std::string::npos ? at : at - begin)});
  }
}

}  // namespace runner::report
