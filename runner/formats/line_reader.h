// Reads the lines of a text file through a window that contains at least the current line. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runner/formats/input_file.h"

namespace runner::formats {

class LineReader {
 public:
  // `input` must outlive the object.
  explicit LineReader(InputFile& input) : input_(input) {}

  // Reads the next line, without its line end (LF or CRLF) and without a byte order mark. It is valid until the next
  // call. Returns false at the end of the file. Throws Error(kData) for a line of more than 64 MiB,
  // for UTF-16 and for a NUL byte.
  bool next(std::string_view& line);
  // Number of the current line, from 1.
  int64_t number() const { return number_; }

 private:
  InputFile& input_;
  std::string window_;
  size_t at_ = 0;  // of the next line
  bool ended_ = false;
  int64_t number_ = 0;
};

}  // namespace runner::formats
