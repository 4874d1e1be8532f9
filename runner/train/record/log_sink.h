// A file that a run appends its points to, and what waits to be written to it.
//
// Thread safety: none.
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
  // A log of lines, made where it is missing with `header` as its first line; folders too.  A file that is there must
  // be such a log: begin with the header, or with a JSON object where that is empty.  A pipe takes lines as they are,
  // whether somebody reads it or not.  Throws Error(kData) with key, path and reason.
  static LogSink text(std::string key, const std::string& path, const std::string& header);
  // A new file for TensorBoard; throws the same.
  static LogSink events(std::string key, const std::string& folder, const std::string& name);

  ~LogSink();
  LogSink(LogSink&& other) noexcept;
  LogSink& operator=(LogSink&&) = delete;

  const std::string& key() const { return key_; }
  const std::string& path() const { return path_; }
  bool had_points() const { return had_points_; }

  // Bytes that are no point.
  void preface(std::string_view bytes);
  // A point, which is missing where `limit` bytes wait.
  void add(std::string_view point, size_t limit);
  // Writes what it can.  Returns what to warn of: that it has become impossible, or possible again.
  std::optional<std::string> flush();

  bool all_written() const { return waiting_.empty(); }
  size_t waiting_bytes() const { return waiting_.size(); }
  bool can_be_written_within(std::chrono::milliseconds time) const;
  // Points that have not been written.
  int64_t missing_points() const { return dropped_ + static_cast<int64_t>(ends_.size()); }

 private:
  LogSink(std::string key, std::string path, int fd) : key_(std::move(key)), path_(std::move(path)), fd_(fd) {}

  std::string key_, path_;
  std::string reason_;  // why it could not be written last
  int fd_;
  bool is_pipe_ = false;
  bool had_points_ = false, failing_ = false;
  std::string waiting_;
  std::deque<uint64_t> ends_;  // of the points that wait, counted from the first byte that was ever added
  uint64_t written_ = 0;       // bytes
  int64_t dropped_ = 0;
};

// Makes the folder and checks that files can be made in it.  Throws Error(kData) with key, path and reason.
void check_log_folder(std::string_view key, const std::string& folder);

// Whether two paths lead to one file, be it there or not.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace runner::train
