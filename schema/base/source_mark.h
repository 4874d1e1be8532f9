// Source location of a recipe value or a tensor op: file, line, column.
//
// Errors print a SourceMark. Graph nodes store a MarkId, an index into the MarkTable of their recording. A MarkTable is
// not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace runner {

struct SourceMark {
  std::string file;
  int line = 0;    // from 1; 0 if unknown
  int column = 0;  // from 1; 0 if unknown

  static auto parts(auto& self) { return std::tie(self.file, self.line, self.column); }
  bool known() const { return line > 0; }
  // "file:line:column", or "file:line" without a column, or "file" without a line.
  std::string to_string() const;
  bool operator==(const SourceMark&) const = default;
};

using MarkId = uint32_t;
inline constexpr MarkId kNoMark = 0;

// Interns marks; id 0 is the unknown mark.
class MarkTable {
 public:
  MarkTable() : marks_(1) {}
  MarkId intern(const SourceMark& mark);
  const SourceMark& at(MarkId id) const { return marks_.at(id); }

 private:
  std::vector<SourceMark> marks_;
};

}  // namespace runner
