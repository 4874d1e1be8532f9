// Where a recipe value or a tensor op came from: file, line, column.
//
// A SourceMark is what errors print.  A MarkId is its packed form for graph nodes: an index into the MarkTable of a
// recording.  Not thread-safe: one table belongs to one recorder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner {

struct SourceMark {
  std::string file;
  int line = 0;    // from 1; 0 = unknown
  int column = 0;  // from 1; 0 = unknown

  bool known() const { return line > 0; }
  // "file:line:column", "file:line" without a column, "file" without a line.
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
