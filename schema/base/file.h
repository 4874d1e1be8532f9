// Reads regular files and never blocks. Thread-safe, except for using one RegularFile from several threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace runner {

// A regular file that is open for reading. Pipes, sockets, devices and folders are refused without opening them, and a
// read that would block, as of /proc/kmsg, fails.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int64_t size() const { return size_; }  // bytes; 0 for files of /proc
  // Kind of a file that is not a regular one, for example "a pipe"; null if it is regular or does not exist.
  const char* other_kind() const { return other_kind_; }
  // Why the file is not open or why the last read failed, for example "No such file or directory" or "it is a pipe".
  std::string problem() const;

  // Reads at most out.size() bytes at the current offset and returns their number: 0 at the end of the file, -1 on
  // failure (problem()).
  ssize_t read(std::span<std::byte> out);
  // Reads at an offset until `out` is full or the file ends, and returns the number of bytes; -1 on failure.
  // Thread-safe.
  ssize_t read_at(int64_t offset, std::span<std::byte> out) const;
  // Appends the rest of the file to `text`, at least `limit` + 1 bytes of a longer file. Returns false on failure.
  bool read_text(std::string& text, size_t limit);

 private:
  int fd_ = -1;
  int error_ = 0;  // errno
  int64_t size_ = 0;
  const char* other_kind_ = nullptr;
};

// Returns the contents of a regular file, or nullopt if it cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

// Returns whether a path, which need not exist, is in `folder` or below, with all links resolved.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace runner
