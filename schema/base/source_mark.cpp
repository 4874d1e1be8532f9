#include "schema/base/source_mark.h"

#include <fmt/format.h>

namespace runner {

std::string SourceMark::to_string() const {
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

MarkId MarkTable::intern(const SourceMark& mark) {
  // Consecutive ops usually come from the same line, so search from the newest mark.
  for (size_t i = marks_.size(); i-- > 1;)
    if (marks_[i] == mark) return static_cast<MarkId>(i);
  marks_.push_back(mark);
  return static_cast<MarkId>(marks_.size() - 1);
}

}  // namespace runner
