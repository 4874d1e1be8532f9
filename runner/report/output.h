// The two output channels of a command: data on stdout, messages on stderr, and the capabilities of each.
//
// Texts may come from other people's recipes, hooks and stores. Unsafe characters (is_unsafe() in schema/base/utf8.h)
// are escaped in everything that is printed, except in raw(). Colours of painted() stay only in a text that is printed
// as coloured, into which texts of others come only by painted(), visible() or on_one_line().
//
// Failure to write data is an error, unless the reader has closed the pipe (`runner ls | head`). Failure to write
// messages is ignored. Control sequences for colour and cursor are written only to terminals.
//
// Thread safety: call data() from one thread only; talk() from any.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runner/formats/write.h"
#include "schema/base/color.h"
#include "schema/base/error.h"

namespace runner::report {

enum class ColorMode { kAuto, kAlways, kNever };

class Output {
 public:
  // kAuto uses colour on a terminal, unless NO_COLOR is set and not empty or TERM is "dumb". The file descriptors must
  // outlive the object.
  explicit Output(ColorMode mode = ColorMode::kAuto, int data_fd = 1, int talk_fd = 2);

  // Writes all of `text`: a table, a document, a text. Throws Error(kRun) with the system's error message.
  void data(std::string_view text);
  // The same for a text with colours.
  void colored_data(std::string_view text);
  // Writes the content of a file for another program. It stays as it is, except on a terminal.
  void raw(std::string_view content);
  // Writes a file with formats::write_parts(). Standard output is raw(), because a file to which the shell appends must
  // not be replaced.
  void file(const std::filesystem::path& path, std::span<const std::string_view> parts, formats::FileKind kind);
  void file(const std::filesystem::path& path, std::string_view contents, formats::FileKind kind) {
    file(path, std::span(&contents, 1), kind);
  }
  void talk(std::string_view text);
  void colored_talk(std::string_view text);  // with colours
  // Writes one line, without a newline in `line`: newlines become spaces.
  void say(std::string_view line);
  // Writes `text` in place of the line of the cursor, if it can be redrawn (live()), and erases the rest of that line.
  void redraw_line(std::string_view text);
  // Writes `text`, with colours, in place of the last `lines` lines.
  void redraw(int lines, std::string_view text);

  bool data_color() const { return data_color_; }
  bool talk_color() const { return talk_color_; }
  // Whether a line on stderr can be redrawn.
  bool live() const { return live_; }
  // Current width of the terminal in columns; 0 if it is not a terminal, which means no limit.
  int data_width() const;
  int talk_width() const;
  int talk_height() const;  // current height in lines

 private:
  void write_data(std::string_view text);

  int data_fd_, talk_fd_;
  bool data_color_, talk_color_, live_;
  bool reader_left_ = false;
};

// ---- errors and warnings, without control characters that could move the cursor -------------------------------------

// "error: " with place, message and notes; or the faults of a RecipeError with their lines and carets. Ends with a
// newline.
std::string error_text(const Error& error, bool color);
// Overload for an error given as a complete text.
std::string error_text(std::string_view text, bool color);

// "warning: " and the text. Ends with a newline.
std::string warning_text(std::string_view text, bool color);

}  // namespace runner::report
