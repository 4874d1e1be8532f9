#include "runner/report/output.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runner/report/format.h"
#include "schema/base/error.h"
#include "schema/base/secrets.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

constexpr int kDefaultWidth = 80, kDefaultHeight = 24;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

bool uses_color(ColorMode mode, int fd) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  return ::isatty(fd) == 1 && !is_set("NO_COLOR") && !is_dumb_terminal();
}

winsize size_of(int fd) {
  winsize size{};
  if (::isatty(fd) != 1) return size;
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = kDefaultWidth;
    size.ws_row = kDefaultHeight;
  }
  return size;
}

// Escapes unsafe characters. `color`: whether codes of painted() stay.
std::string colored(std::string_view text, bool color) {
  std::string out;
  while (color) {
    size_t start = text.find('\033');
    while (start != text.npos && color_bytes(text, start) == 0) start = text.find('\033', start + 1);
    if (start == text.npos) break;
    const size_t code = color_bytes(text, start);
    out += visible(text.substr(0, start));
    out += text.substr(start, code);
    text.remove_prefix(start + code);
  }
  return out + visible(text);
}

// As colored(), for texts on standard error, without the values of secrets.
std::string message(std::string_view text, bool color) {
  return colored(hide_secrets(std::string(text)), color);
}

}  // namespace

Output::Output(ColorMode mode, int data_fd, int talk_fd)
    : data_fd_(data_fd),
      talk_fd_(talk_fd),
      data_color_(uses_color(mode, data_fd)),
      talk_color_(uses_color(mode, talk_fd)),
      live_(::isatty(talk_fd) == 1 && !is_dumb_terminal()) {}

void Output::data(std::string_view text) {
  write_data(visible(text));
}

void Output::colored_data(std::string_view text) {
  write_data(colored(text, data_color_));
}

void Output::raw(std::string_view content) {
  ::isatty(data_fd_) == 1 ? write_data(visible(content)) : write_data(content);
}

void Output::file(const std::filesystem::path& path, std::span<const std::string_view> parts, formats::FileKind kind) {
  if (!is_standard_output(path.native())) return formats::write_parts(path, parts, kind);
  for (const std::string_view part : parts) raw(part);
}

void Output::write_data(std::string_view text) {
  if (reader_left_) return;
  const int error = formats::write_all(data_fd_, text);
  reader_left_ = error == EPIPE;
  if (error != 0 && !reader_left_) fail(ErrorKind::kRun, "cannot write to standard output: {}", std::strerror(error));
}

void Output::talk(std::string_view text) {
  formats::write_all(talk_fd_, message(text, /*color=*/false));
}

void Output::colored_talk(std::string_view text) {
  formats::write_all(talk_fd_, message(text, talk_color_));
}

void Output::say(std::string_view line) {
  talk(on_one_line(line) + '\n');
}

void Output::redraw_line(std::string_view text) {
  formats::write_all(talk_fd_, (live_ ? "\r\033[K" : "") + message(text, /*color=*/false));
}

void Output::redraw(int lines, std::string_view text) {
  formats::write_all(talk_fd_, (lines > 0 ? fmt::format("\033[{}A\033[J", lines) : "") + message(text, talk_color_));
}

int Output::data_width() const {
  return size_of(data_fd_).ws_col;
}

int Output::talk_width() const {
  return size_of(talk_fd_).ws_col;
}

int Output::talk_height() const {
  return size_of(talk_fd_).ws_row;
}

}  // namespace runner::report
