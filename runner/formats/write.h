// Writes bytes to descriptors and files. Thread-safe for different targets.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace runner::formats {

// Writes all of `text`, repeating partial writes. Returns 0 or errno.
int write_all(int fd, std::string_view text);

// Replaces `path` atomically by the concatenation of `parts`: even after a power failure, the file is either the old or
// the new one. Its permissions are kept, and no other file is modified. If `path` is a symbolic link, its target is
// replaced. A file that is not regular, such as a pipe, is written to in place; "-" is standard output. Throws
// Error(kUsage) if the file is used otherwise (used_files.h) or has contents of another kind, and Error(kRun) with the
// system's error text.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

// Writes a new file. Throws Error(kUsage) if `path` exists.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace runner::formats
