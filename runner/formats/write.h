// Writes bytes to descriptors and files. Thread-safe for different targets.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace runner::formats {

// Writes all of `text`, repeating partial writes. Returns 0 or errno.
int write_all(int fd, std::string_view text);

// Contents of files that runner writes or would not replace, as their first bytes show them. kMetrics and kPredictions:
// CSV of metric points and of predictions.
enum class FileKind {
  kSvg,
  kJson,
  kNpy,
  kSafetensors,
  kOnnx,
  kGzip,
  kZip,
  kPng,
  kPdf,
  kMetrics,
  kPredictions,
  kText,
  kBinary
};

// Returns the kind of contents; kText for CSV that runner has not written.
FileKind kind_of(std::string_view contents);

// Replaces `path` atomically by `contents`: even after a power failure, the file is either the old or the new one. Its
// permissions are kept, and no other file is modified. If `path` is a symbolic link, its target is replaced or created.
// A file that is not regular, such as a pipe, is written to in place. `kind`: what `contents` are; an old file must be
// empty or of the same kind. Throws Error(kUsage) if it is not, or if the file is used otherwise (used_files.h), and
// Error(kRun) with the system's error text.
void write_file(const std::filesystem::path& path, std::string_view contents, FileKind kind);

// The same for the concatenation of `parts`.
void write_parts(const std::filesystem::path& path, std::span<const std::string_view> parts, FileKind kind);

// write_parts(), or a function that sends some files elsewhere.
using WriteParts =
    std::function<void(const std::filesystem::path& path, std::span<const std::string_view> parts, FileKind kind)>;

// Creates a folder and those that contain it, unless they exist. Throws Error(kRun) with the system's error text.
void create_folder(const std::filesystem::path& folder);

// Writes a new file. Throws Error(kUsage) if `path` exists.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

// New files and folders that are needed together. Unless keep() is called, the destructor removes them.
class NewFiles {
 public:
  NewFiles() = default;
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles();

  // Call it before a file or folder is written. One that exists stays.
  void add(const std::filesystem::path& path);
  void keep() { paths_.clear(); }

 private:
  std::vector<std::filesystem::path> paths_;
};

}  // namespace runner::formats
