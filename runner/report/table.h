// Aligned columns of text.
//
// Columns are as wide as their widest cell, counted in terminal columns.  Where the table is wider than it may be, its
// widest left-aligned columns are cut; where that is not enough, the first as well, which names the row and keeps 12
// columns, and at last those of numbers.  A cell is one line: control characters become spaces.  Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/report/output.h"

namespace runner::report {

enum class Align { kLeft, kRight };

struct Column {
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
  // Without any title there is no title line.
  explicit Table(std::vector<Column> columns);

  // cells: one for each column.
  void add(const std::vector<Cell>& cells);
  bool empty() const { return cells_.empty(); }

  // The columns that it takes where nothing is cut.
  int width() const;

  // Lines without spaces at their ends.  width 0: no limit.
  std::string render(int width = 0, bool color = false) const;

 private:
  // A cell as it is kept: a list may have ten thousand rows, and a string for each cell would be most of its cost.
  struct Kept {
    size_t end = 0;  // of its text in texts_, which begins where that of the cell before it ends
    int width = 0;
    Color color = Color::kNone;
  };

  std::vector<int> cell_widths() const;
  std::vector<int> widths(int limit) const;

  std::vector<Column> columns_;
  std::vector<Kept> cells_;  // row by row
  std::string texts_;
};

// A table of names and values, without titles; values are never cut.
class Facts {
 public:
  Facts() : table_({{""}, {""}}) {}
  // A fact with an empty value is left out; further lines of a value stand below its first, without the color.
  void add(std::string_view name, const std::string& value, Color color = Color::kNone);
  std::string render(bool color = false) const { return table_.render(0, color); }

 private:
  Table table_;
};

}  // namespace runner::report
