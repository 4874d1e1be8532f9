// Bytes to descriptors and files.  Thread-safe for different targets.
#pragma once

#include <filesystem>
#include <string_view>

namespace runner::report {

// Writes all of `text`, however the system cuts it.  Returns 0, or errno.
int write_all(int fd, std::string_view text);

// Replaces `path` as a whole: it is the old or the new file, never half of one.  Throws Error(kRun) with the system's
// reason.
void write_file(const std::filesystem::path& path, std::string_view contents);

// The same for a file that must not exist yet; throws Error(kUsage) if it does.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace runner::report
