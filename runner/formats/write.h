// Bytes to descriptors and files.  Thread-safe for different targets.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace runner::formats {

// Writes all of `text`, however the system cuts it.  Returns 0, or errno.
int write_all(int fd, std::string_view text);

// Replaces `path` as a whole by `parts`, one after the other: it is the old or the new file, never half of one, also
// after a power cut, with the permissions that it had, and no other file is touched.  A link keeps pointing to what is
// replaced; what is no regular file (a pipe) is written to, and "-" is standard output.  Throws Error(kRun) with the
// system's reason.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

// Writes a file that must not exist yet; throws Error(kUsage) if it does.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace runner::formats
