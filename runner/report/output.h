// The two channels of a command: data on stdout, talk on stderr, and what each of them can show.
//
// Data that cannot be written is an error, except that a reader who has left (`runner ls | head`) is not; talk that
// cannot be written is lost in silence.  Control characters of colour and cursor go to terminals alone.
// Thread safety: data() on one thread; talk() on any.
#pragma once

#include <string>
#include <string_view>

namespace runner::report {

enum class ColorMode { kAuto, kAlways, kNever };

enum class Color { kNone, kBold, kRed, kGreen, kYellow, kBlue };

// `text` in a colour; as it is for kNone or where `enabled` is false.
std::string painted(std::string_view text, Color color, bool enabled);

class Output {
 public:
  // kAuto: colour on a terminal, unless NO_COLOR is set and not empty or TERM is "dumb".  The descriptors are borrowed.
  explicit Output(ColorMode mode = ColorMode::kAuto, int data_fd = 1, int talk_fd = 2);

  // Writes all of `text`.  Throws Error(kRun) with the system's reason.
  void data(std::string_view text);
  void talk(std::string_view text) noexcept;

  bool data_color() const { return data_color_; }
  bool talk_color() const { return talk_color_; }
  // Whether a line may be redrawn on stderr.
  bool live() const { return live_; }
  // Columns of the terminal, asked anew; 0: no terminal, no limit.
  int data_width() const;
  int talk_width() const;
  int talk_height() const;  // its lines

 private:
  int data_fd_, talk_fd_;
  bool data_color_, talk_color_, live_;
  bool reader_left_ = false;
};

}  // namespace runner::report
