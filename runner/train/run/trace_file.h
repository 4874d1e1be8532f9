// The file of `profile.out`: a trace that grows cycle by cycle and is valid JSON at any time.
//
// Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace runner::train {

class TraceFile {
 public:
  // Creates the folder and the file, or opens it. Throws Error(kData) if it cannot be written or contains something
  // other than a trace.
  explicit TraceFile(std::string path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Makes the file a trace without events. Throws Error(kData) if it cannot be written.
  void begin();
  // Appends a part of a trace (formats/chrome_trace.h). If that fails, restores the file and returns a warning.
  std::optional<std::string> add(std::string_view events);

 private:
  int write(std::string_view text, int64_t offset);

  const std::string path_;
  int fd_;
  int64_t end_ = 0;    // offset after the events, where the closing text begins
  bool empty_ = true;  // whether there are no events
};

}  // namespace runner::train
