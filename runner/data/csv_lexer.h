// Splits a CSV stream into records of fields (RFC 4180). Supports quotes with embedded delimiters, newlines and doubled
// quotes, and LF or CRLF line ends. Skips a UTF-8 byte order mark and empty lines.
//
// Reads through a window that contains at least the current record. Thread safety: none.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runner/data/data_file.h"
#include "runner/formats/input_file.h"

namespace runner::data {

enum class Quotes : bool { kAsText, kEnclose };

class CsvLexer {
 public:
  // `quotes`: whether quotes enclose fields, or are text, as in TSV files.
  CsvLexer(formats::InputFile& input, char delimiter, Quotes quotes = Quotes::kEnclose);

  // Reads the next record; its fields are valid until the next call. Returns false at the end of the file. Throws
  // Error(kData) "FILE:LINE: …" for an unclosed quote, text after a closing quote, a NUL byte, or a record of more than
  // 64 MiB.
  bool next(std::vector<std::string_view>& fields);
  // Passes over the next record, which has no fields then. Much faster than next() for a line without quotes. Returns
  // false at the end of the file; throws as next() does.
  bool skip();
  // Line at which the current record starts, from 1.
  int64_t line() const { return line_; }
  // Whether the current record has a quoted field.
  bool has_quotes() const { return has_quotes_; }

  // place(): position of the record that next() will read. go_to(): continues at such a position. Uncompressed data
  // only.
  SamplePlace place() const { return {window_byte_ + static_cast<int64_t>(begin_), next_line_}; }
  void go_to(const SamplePlace& place);

 private:
  // Parses the record at begin_. Returns false if it does not end within the window.
  bool lex(std::vector<std::string_view>& fields);
  const char* lex_quoted(const char* at, std::vector<std::string_view>& fields);
  void unescape(std::string_view& field);
  // Makes space in the window and reads more data, which must not contain NUL. Returns false at the end of the data.
  bool refill();
  bool read_more();
  // Throws Error(kData) if the window contains a NUL byte at or after `from`.
  void reject_nul(size_t from) const;

  formats::InputFile& input_;
  char delimiter_;
  Quotes quotes_;
  std::vector<char> window_;
  int64_t window_byte_ = 0;  // offset in the data of the start of the window
  size_t begin_ = 0;         // start of the current record
  size_t end_ = 0;           // end of the data read
  bool ended_ = false;
  int64_t line_ = 0;
  int64_t next_line_ = 1;
  bool has_quotes_ = false;      // of the current record
  std::vector<size_t> escaped_;  // fields of the current record that contain doubled quotes
  std::vector<std::string_view> skipped_;
};

}  // namespace runner::data
