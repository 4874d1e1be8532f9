// Watches files while they are read into memory: reports slow reading, and refuses a file that does not fit.
//
// A compressed file does not tell the size of its content, so the memory that a file needs is estimated from the part
// that has been read: growth of the process's resident memory / part of the file. Thread safety: a watch belongs to the
// thread that created it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace runner::formats {

struct ReadingProgress {
  const std::string& path;
  double part;  // of the file, from 0 to 1
  bool ended;   // nothing more is read
};

// Called on the reading thread when reading has taken a second, then about twice a second, and once at the end. Set it
// before reading anything. Null, the default: no notice.
using ReadingNotice = void (*)(const ReadingProgress&);
void set_reading_notice(ReadingNotice notice);

// While it exists, ReadingWatch::advance() on this thread throws Error(kInterrupted) once `asked` returns true. Belongs
// to the thread that created it; the innermost one is active.
class ReadingStop {
 public:
  explicit ReadingStop(std::function<bool()> asked);
  ~ReadingStop();
  ReadingStop(const ReadingStop&) = delete;
  ReadingStop& operator=(const ReadingStop&) = delete;

 private:
  friend class ReadingWatch;

  ReadingStop* const outer_;
  const std::function<bool()> asked_;
};

// While it exists, InputFile::read() on this thread calls advance(). Watches nest: the innermost one is active.
class ReadingWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // `patience`: time without a notice. `available`: returns bytes of memory; null for those of the machine.
  explicit ReadingWatch(Clock::duration patience = std::chrono::seconds(1), size_t (*available)() = nullptr);
  ~ReadingWatch();
  ReadingWatch(const ReadingWatch&) = delete;
  ReadingWatch& operator=(const ReadingWatch&) = delete;

  // Throws Error(kData) if the rest of the file would need more memory than is available, and for a ReadingStop.
  static void advance(const std::string& path, double part);

 private:
  void start(const std::string& path);
  void check_memory(double part) const;
  void notify(double part, bool ended);

  ReadingWatch* const outer_;
  size_t (*const available_)();
  Clock::time_point next_notice_;
  bool notified_ = false;
  std::string path_;          // of the current file
  size_t resident_ = 0;       // bytes when it was opened
  size_t had_available_ = 0;  // bytes then
};

}  // namespace runner::formats
