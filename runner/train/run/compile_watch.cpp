#include "runner/train/run/compile_watch.h"

#include <utility>

#include <fmt/format.h>

#include "schema/base/duration.h"
#include "schema/base/signals_blocked.h"

namespace runner::train {

CompileWatch::CompileWatch(Observer& observer, std::chrono::milliseconds patience)
    : observer_(observer), patience_(patience) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { watch(); });
}

CompileWatch::~CompileWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CompileWatch::begun(std::function<std::string()> what) {
  {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    begun_ = Clock::now();
    notified_ = false;
    if (patience_ <= patience_.zero()) notify();
  }
  changed_.notify_all();
}

void CompileWatch::ended() {
  {
    const std::lock_guard lock(mutex_);
    const std::chrono::duration<double> seconds = Clock::now() - *begun_;
    begun_.reset();
    if (notified_) observer_.on_notice(fmt::format("compiled it in {}", duration_text(seconds.count())));
  }
  changed_.notify_all();
}

void CompileWatch::watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || (begun_ && !notified_); });
    if (stopping_) return;
    const Clock::time_point begun = *begun_;
    const auto over = [&] { return stopping_ || begun_ != begun; };
    if (changed_.wait_until(lock, begun + patience_, over)) continue;
    notify();
  }
}

void CompileWatch::notify() {
  notified_ = true;
  observer_.on_notice(fmt::format("compiling {}", what_()));
}

}  // namespace runner::train
