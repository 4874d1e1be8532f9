// A file that points are appended to, with its buffer.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace runner::train {

class LogSink {
 public:
  // Opens a line-based log, creating folders and the file with `header` as first line. An existing file must be such a
  // log: it must begin with the header or, if that is empty, with a JSON object. A pipe is accepted with or without a
  // reader. A header that cannot be written, as on a full disk, waits as points do. Throws Error(kData) with key, path
  // and reason.
  static LogSink text(std::string key, const std::string& path, const std::string& header);
  // Creates a new file for TensorBoard. Throws like text().
  static LogSink events(std::string key, const std::string& folder, const std::string& name);

  ~LogSink();
  LogSink(LogSink&& other) noexcept;
  LogSink& operator=(LogSink&&) = delete;

  const std::string& key() const { return key_; }
  const std::string& path() const { return path_; }
  bool had_points() const { return had_points_; }

  // Adds bytes that are not a point.
  void preface(std::string_view bytes);
  // Adds a point. Drops it if more than `limit` bytes would be waiting.
  void add(std::string_view point, size_t limit);
  // Writes what it can. Returns a warning when writing becomes impossible or possible again.
  std::optional<std::string> flush();

  bool all_written() const { return waiting_.empty(); }
  size_t waiting_bytes() const { return waiting_.size(); }
  bool can_be_written_within(std::chrono::milliseconds time) const;
  // Number of points that have not been written.
  int64_t missing_points() const { return dropped_ + static_cast<int64_t>(ends_.size()); }

 private:
  LogSink(std::string key, std::string path, int fd) : key_(std::move(key)), path_(std::move(path)), fd_(fd) {}

  std::string key_, path_;
  int fd_;
  bool is_pipe_ = false;
  bool had_points_ = false, failing_ = false;
  std::string waiting_;
  std::deque<uint64_t> ends_;  // end offsets of waiting points, counted from the first byte ever added
  uint64_t written_ = 0;       // bytes
  int64_t dropped_ = 0;
};

// Creates the folder and checks that files can be created in it. Throws Error(kData) with key, path and reason.
void check_log_folder(std::string_view key, const std::string& folder);

// Whether two paths name the same file, existing or not.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace runner::train
