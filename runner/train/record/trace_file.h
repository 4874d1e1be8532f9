// The file of `profile.out`: a trace that grows by a cycle at a time, and can be read whenever it is.
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
  // Makes its folder and the file, or opens it; throws Error(kData) where it cannot be written, or holds something else
  // than a trace.
  explicit TraceFile(std::string path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // It is a trace without events.  Throws Error(kData) where it cannot be written.
  void begin();
  // Adds a part of a trace (formats/chrome_trace.h).  What to warn of where it cannot be written: the file is as it
  // was.
  std::optional<std::string> add(std::string_view events);

 private:
  int write(std::string_view text, int64_t offset);

  const std::string path_;
  int fd_;
  int64_t end_ = 0;    // of the events, where the file's end stands
  bool empty_ = true;  // there are none
};

}  // namespace runner::train
