// A text table with aligned columns.
//
// A column is as wide as its widest cell, in terminal columns. If the table exceeds its maximum width, the widest
// left-aligned columns are cut. If that does not suffice, the first column, which names the row, is cut down to 12
// columns, and finally numeric columns are cut. A cell is one line: unsafe characters (is_unsafe()) become spaces. Not
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/report/output.h"

namespace runner::report {

enum class Align { kLeft, kRight };

struct TableColumn {
  std::string title;
  Align align = Align::kLeft;
};

struct Cell {
  std::string text;
  Color color = Color::kNone;

  Cell(std::string cell_text, Color cell_color = Color::kNone) : text(std::move(cell_text)), color(cell_color) {}
  Cell(const char* cell_text) : text(cell_text) {}
};

class Table {
 public:
  // If no column has a title, there is no title line.
  explicit Table(std::vector<TableColumn> columns);

  // `cells`: one for each column.
  void add(const std::vector<Cell>& cells);
  bool empty() const { return cells_.empty(); }

  // Width if no cell is cut.
  int width() const;

  // Returns the lines without trailing spaces. `width`: 0 for no limit.
  std::string render(int width = 0, bool color = false) const;

 private:
  // Compact storage of a cell. A table may have ten thousand rows, for which one string per cell would be most of the
  // cost.
  struct CellEntry {
    size_t end = 0;  // end of its text in texts_; it begins at the end of the previous cell's text
    int width = 0;
    Color color = Color::kNone;
  };

  std::vector<int> cell_widths() const;
  std::vector<int> widths(int limit) const;

  std::vector<TableColumn> columns_;
  std::vector<CellEntry> cells_;  // row by row
  std::string texts_;
};

// A table of names and values without titles; values are never cut.
class KeyValueTable {
 public:
  KeyValueTable() : table_({{""}, {""}}) {}
  // Adds a fact unless its value is empty. Further lines of the value follow below the first one, without colour.
  void add(std::string_view name, const std::string& value, Color color = Color::kNone);
  std::string render(bool color = false) const { return table_.render(0, color); }

 private:
  Table table_;
};

}  // namespace runner::report
