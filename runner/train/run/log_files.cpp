#include "runner/train/run/log_files.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runner/formats/text_rows.h"
#include "runner/train/run/log_sink.h"
#include "schema/base/clock.h"
#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "store/warning_list.h"

namespace runner::train {
namespace {

using Clock = std::chrono::steady_clock;
using formats::PointOrigin;
using formats::Scalar;

std::string as_csv(const Scalar& point, const PointOrigin& origin) {
  return formats::csv_point(point, &origin);
}
std::string as_json(const Scalar& point, const PointOrigin& origin) {
  return formats::json_point(point, &origin);
}
std::string as_event(const Scalar& point, const PointOrigin&) {
  return formats::scalar_record(point);
}

struct Log {
  LogSink sink;
  std::string (*text_of)(const Scalar&, const PointOrigin&);
};

}  // namespace

bool has_log_files(const schema::LogSpec& spec) {
  return !spec.tensorboard.empty() || !spec.jsonl.empty() || !spec.csv.empty();
}

class LogFiles::Impl {
 public:
  Impl(const schema::LogSpec& spec, LogLimits limits);
  ~Impl() { stop(); }

  void begin(std::string_view run, int64_t attempt, int64_t start_step);
  void add(std::string_view metric, int64_t step, double value);
  void hand_over();
  std::vector<std::string> take_warnings() { return warnings_.take(); }
  std::optional<std::string> twice_written(int64_t start_step, int64_t last_step) const;
  void finish();

 private:
  struct Point {
    const std::string* metric;  // in metrics_, which only grows
    int64_t step, time_ms;
    double value;
  };

  void work();
  void write(const std::vector<Point>& points);
  void flush(LogSink& sink);
  void flush_while_read();
  void stop();
  bool all_written() const;

  const std::string tensorboard_;
  const LogLimits limits_;
  std::string run_;
  int64_t attempt_ = 1;

  // Used by the training thread only.
  std::set<std::string, std::less<>> metrics_;
  std::vector<Point> added_;

  // Shared by both threads.
  store::WarningList warnings_;
  mutable std::mutex mutex_;  // guards the rest of this block
  std::condition_variable handed_over_;
  std::vector<Point> waiting_;
  int64_t dropped_ = 0;  // points dropped for lack of room
  bool stopping_ = false;

  std::vector<Log> logs_;  // used by the writing thread only while it runs
  std::thread thread_;
};

LogFiles::Impl::Impl(const schema::LogSpec& spec, LogLimits limits) : tensorboard_(spec.tensorboard), limits_(limits) {
  RUN_CHECK(spec.csv.empty() || !is_same_file(spec.csv, spec.jsonl), ErrorKind::kData,
            "log.csv and log.jsonl are both {}; use different files", spec.csv);
  if (!spec.csv.empty())
    logs_.push_back({LogSink::text("log.csv", spec.csv, formats::csv_header(/*origins=*/true)), as_csv});
  if (!spec.jsonl.empty()) logs_.push_back({LogSink::text("log.jsonl", spec.jsonl, ""), as_json});
  if (!tensorboard_.empty()) check_log_folder("log.tensorboard", tensorboard_);
}

void LogFiles::Impl::begin(std::string_view run, int64_t attempt, int64_t start_step) {
  run_ = run;
  attempt_ = attempt;
  if (!tensorboard_.empty()) {
    const int64_t now = now_ms();
    // Readers of the folder process its files in order of name.
    const std::string name = fmt::format("events.out.tfevents.{}.{}.{:04}", now / 1000, run, attempt);
    logs_.push_back({LogSink::events("log.tensorboard", fmt::format("{}/{}", tensorboard_, run), name), as_event});
    LogSink& sink = logs_.back().sink;
    sink.preface(formats::event_file_start(now));
    if (attempt > 1) sink.preface(formats::restart_record(now, start_step + 1));
  }
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { work(); });
}

void LogFiles::Impl::add(std::string_view metric, int64_t step, double value) {
  auto name = metrics_.find(metric);
  if (name == metrics_.end()) name = metrics_.emplace(metric).first;
  added_.push_back({&*name, step, now_ms(), value});
}

void LogFiles::Impl::hand_over() {
  if (added_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    const size_t room = limits_.waiting_points - std::min(limits_.waiting_points, waiting_.size());
    const size_t taken = std::min(room, added_.size());
    waiting_.insert(waiting_.end(), added_.begin(), added_.begin() + static_cast<ptrdiff_t>(taken));
    dropped_ += static_cast<int64_t>(added_.size() - taken);
  }
  added_.clear();
  handed_over_.notify_one();
}

std::optional<std::string> LogFiles::Impl::twice_written(int64_t start_step, int64_t last_step) const {
  if (last_step <= start_step) return std::nullopt;
  std::vector<std::string_view> keys;
  for (const Log& log : logs_)
    if (log.sink.had_points()) keys.push_back(log.sink.key());
  if (keys.empty()) return std::nullopt;
  return fmt::format(
      "{} may contain points of steps {} to {} of an earlier attempt, which this attempt records again; `attempt` in "
      "each line distinguishes them",
      fmt::join(keys, " and "), start_step + 1, last_step);
}

bool LogFiles::Impl::all_written() const {
  return std::all_of(logs_.begin(), logs_.end(), [](const Log& log) { return log.sink.all_written(); });
}

void LogFiles::Impl::work() {
  for (bool stopping = false; !stopping;) {
    std::vector<Point> points;
    {
      std::unique_lock lock(mutex_);
      const auto something = [this] { return stopping_ || !waiting_.empty(); };
      all_written() ? handed_over_.wait(lock, something)
                    : static_cast<void>(handed_over_.wait_for(lock, limits_.retry_every, something));
      stopping = stopping_;
      points.swap(waiting_);
    }
    write(points);
  }
}

void LogFiles::Impl::write(const std::vector<Point>& points) {
  const PointOrigin origin{run_, attempt_};
  for (const Point& point : points) {
    const Scalar scalar{*point.metric, point.step, point.time_ms, point.value};
    for (Log& log : logs_) {
      const std::string text = log.text_of(scalar, origin);
      if (log.sink.waiting_bytes() + text.size() > limits_.waiting_bytes) flush(log.sink);
      log.sink.add(text, limits_.waiting_bytes);
    }
  }
  for (Log& log : logs_) flush(log.sink);
}

void LogFiles::Impl::flush(LogSink& sink) {
  if (auto news = sink.flush()) warnings_.add(std::move(*news));
}

// Waits as long as the reader of a pipe makes progress.
void LogFiles::Impl::flush_while_read() {
  for (Log& log : logs_) {
    while (!log.sink.all_written() && log.sink.can_be_written_within(limits_.last_patience)) {
      const size_t before = log.sink.waiting_bytes();
      flush(log.sink);
      if (log.sink.waiting_bytes() == before) break;
    }
  }
}

void LogFiles::Impl::stop() {
  if (!thread_.joinable()) return;
  hand_over();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  handed_over_.notify_one();
  thread_.join();
}

void LogFiles::Impl::finish() {
  stop();
  flush_while_read();
  for (const Log& log : logs_) {
    const int64_t missing = log.sink.missing_points() + dropped_;
    if (missing > 0)
      warnings_.add(fmt::format("{} {} misses {} points of this run; `runner export {} --metrics FILE` writes all",
                                log.sink.key(), log.sink.path(), missing, run_));
  }
}

LogFiles::LogFiles(const schema::LogSpec& spec, LogLimits limits) : impl_(std::make_unique<Impl>(spec, limits)) {}
LogFiles::~LogFiles() = default;

void LogFiles::begin(std::string_view run, int64_t attempt, int64_t start_step) {
  impl_->begin(run, attempt, start_step);
}
void LogFiles::add(std::string_view metric, int64_t step, double value) {
  impl_->add(metric, step, value);
}
void LogFiles::hand_over() {
  impl_->hand_over();
}
std::vector<std::string> LogFiles::take_warnings() {
  return impl_->take_warnings();
}
std::optional<std::string> LogFiles::twice_written(int64_t start_step, int64_t last_step) const {
  return impl_->twice_written(start_step, last_step);
}
void LogFiles::finish() {
  impl_->finish();
}

}  // namespace runner::train
