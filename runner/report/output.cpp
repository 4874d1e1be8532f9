#include "runner/report/output.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runner/formats/write.h"
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

// Colours of painted() and of recipe errors.
constexpr std::array<std::string_view, 8> kColors{"0", "1", "31", "32", "33", "34", "1;31", "1;32"};

// Returns what is written for a text. `color`: whether codes of kColors stay.
std::string printed(std::string_view text, bool color) {
  std::string out;
  while (color) {
    constexpr std::string_view kStart = "\033[";
    const size_t start = text.find(kStart), end = text.find('m', start);
    if (end == text.npos) break;
    const std::string_view code = text.substr(start + kStart.size(), end - start - kStart.size());
    const bool is_ours = std::ranges::find(kColors, code) != kColors.end();
    out += visible(text.substr(0, start));
    const std::string_view sequence = text.substr(start, is_ours ? end + 1 - start : kStart.size());
    is_ours ? out += sequence : out += visible(sequence);
    text.remove_prefix(start + sequence.size());
  }
  return out + visible(text);
}

// As printed(), for texts on standard error, without the values of secrets.
std::string message(std::string_view text, bool color) {
  return printed(hide_secrets(std::string(text)), color);
}

}  // namespace

std::string painted(std::string_view text, Color color, bool enabled) {
  constexpr std::array<std::string_view, 6> kCodes{"", "1", "31", "32", "33", "34"};
  if (!enabled || color == Color::kNone || text.empty()) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<size_t>(color)], text);
}

Output::Output(ColorMode mode, int data_fd, int talk_fd)
    : data_fd_(data_fd),
      talk_fd_(talk_fd),
      data_color_(uses_color(mode, data_fd)),
      talk_color_(uses_color(mode, talk_fd)),
      live_(::isatty(talk_fd) == 1 && !is_dumb_terminal()) {}

void Output::data(std::string_view text) {
  write_data(printed(text, data_color_));
}

void Output::raw(std::string_view content) {
  ::isatty(data_fd_) == 1 ? write_data(visible(content)) : write_data(content);
}

void Output::write_data(std::string_view text) {
  if (reader_left_) return;
  const int error = formats::write_all(data_fd_, text);
  reader_left_ = error == EPIPE;
  if (error != 0 && !reader_left_) fail(ErrorKind::kRun, "cannot write to standard output: {}", std::strerror(error));
}

void Output::talk(std::string_view text) {
  formats::write_all(talk_fd_, message(text, talk_color_));
}

void Output::say(std::string_view line) {
  talk(on_one_line(line) + '\n');
}

void Output::redraw_line(std::string_view text) {
  formats::write_all(talk_fd_, (live_ ? "\r\033[K" : "") + message(text, talk_color_));
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
