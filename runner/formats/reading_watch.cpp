#include "runner/formats/reading_watch.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <utility>

#include <unistd.h>

#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"

namespace runner::formats {
namespace {

constexpr auto kNoticeEvery = std::chrono::milliseconds(500);

std::atomic<ReadingNotice> reading_notice{nullptr};
thread_local ReadingWatch* active_watch = nullptr;
thread_local ReadingStop* active_stop = nullptr;

// Resident bytes of this process; 0 if unknown.
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  return file >> all >> resident ? resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

double gib(double bytes) {
  return bytes / (1 << 30);
}

}  // namespace

void set_reading_notice(ReadingNotice notice) {
  reading_notice = notice;
}

ReadingStop::ReadingStop(std::function<bool()> asked) : outer_(active_stop), asked_(std::move(asked)) {
  active_stop = this;
}

ReadingStop::~ReadingStop() {
  active_stop = outer_;
}

ReadingWatch::ReadingWatch(Clock::duration patience, size_t (*available)())
    : outer_(active_watch),
      available_(available != nullptr ? available : backends::available_memory),
      next_notice_(Clock::now() + patience) {
  active_watch = this;
}

ReadingWatch::~ReadingWatch() {
  active_watch = outer_;
  if (notified_) notify(1, true);
}

void ReadingWatch::advance(const std::string& path, double part) {
  RUN_CHECK(active_stop == nullptr || !active_stop->asked_(), ErrorKind::kInterrupted,
            "interrupted while {} was read; nothing was recorded", path);
  ReadingWatch* const watch = active_watch;
  if (watch == nullptr) return;
  if (watch->path_ != path) watch->start(path);
  watch->check_memory(part);
  if (Clock::now() >= watch->next_notice_) watch->notify(part, false);
}

void ReadingWatch::start(const std::string& path) {
  path_ = path;
  resident_ = resident_bytes();
  had_available_ = available_();
}

// The first sixteenth of the available memory is a large enough part to estimate from. A smaller one shows whether a
// file needs much more memory than there is.
void ReadingWatch::check_memory(double part) const {
  constexpr size_t kSmall = size_t{16} << 20, kSmallest = size_t{8} << 20;  // bytes
  const size_t now = resident_bytes(), grown = now - std::min(now, resident_);
  if (grown < std::max(kSmallest, had_available_ / 256) || part <= 0) return;
  const double whole = static_cast<double>(grown) / part, left = whole - static_cast<double>(grown);
  const auto available = static_cast<double>(available_());
  if (grown < std::max(kSmall, had_available_ / 16) && left < 2 * available) return;
  RUN_CHECK(
      left <= available, ErrorKind::kData,
      "{}: out of memory: {:.2g}% of the file need {:.2g} GiB, so the rest needs about {:.2g} GiB more, and {:.2g} "
      "GiB are available; use a part of the file, or data.stream: true if its format can be streamed",
      path_, 100 * part, gib(static_cast<double>(grown)), gib(left), gib(available));
}

void ReadingWatch::notify(double part, bool ended) {
  notified_ = true;
  next_notice_ = Clock::now() + kNoticeEvery;
  if (const ReadingNotice notice = reading_notice) notice({path_, part, ended});
}

}  // namespace runner::formats
