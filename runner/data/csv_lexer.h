// Cuts a csv stream into records of fields (RFC 4180): quotes with embedded delimiters, newlines and doubled quotes;
// LF or CRLF; a UTF-8 byte order mark is skipped, and so are empty lines.
//
// Reads through one window that holds at least the current record.  One thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runner/formats/input.h"

namespace runner::data {

// Where a record starts.
struct CsvPlace {
  int64_t byte = 0;  // of the data
  int64_t line = 1;
};

class CsvLexer {
 public:
  CsvLexer(formats::Input& input, char delimiter);

  // The next record, its fields valid until the following call; false at the end of the file.  Throws Error(kData),
  // "FILE:LINE: …", for a quote that is not closed, text after a closing quote, or a record of more than 64 MiB.
  bool next(std::vector<std::string_view>& fields);
  // The line where the current record starts, from 1.
  int64_t line() const { return line_; }

  // Of the record that next() is to read; and to read on at one that was here before, in data that are not compressed.
  CsvPlace place() const { return {window_byte_ + static_cast<int64_t>(begin_), next_line_}; }
  void go_to(const CsvPlace& place);

 private:
  // One record from begin_ on; false when it does not end within the window.
  bool lex(std::vector<std::string_view>& fields);
  const char* lex_quoted(const char* at, std::vector<std::string_view>& fields);
  void unescape(std::string_view& field);
  // Makes room and reads on; false when there is nothing more.
  bool refill();

  formats::Input& input_;
  char delimiter_;
  std::vector<char> window_;
  int64_t window_byte_ = 0;  // of the data, at which the window starts
  size_t begin_ = 0;         // of the current record
  size_t end_ = 0;           // of what was read
  bool ended_ = false;
  int64_t line_ = 0;
  int64_t next_line_ = 1;
  bool has_quotes_ = false;      // the current record
  std::vector<size_t> escaped_;  // fields of the current record that hold doubled quotes
};

}  // namespace runner::data
