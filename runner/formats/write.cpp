#include "runner/formats/write.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/formats/text_rows.h"
#include "runner/formats/used_files.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/system_limits.h"

namespace runner::formats {
namespace {

namespace fs = std::filesystem;
using Parts = std::span<const std::string_view>;

constexpr size_t kStartBytes = 64 << 10;  // of a file, that show its kind
constexpr mode_t kMode = 0666;            // modified by the umask

// Returns 0 or errno.
int put_parts(int fd, Parts parts) {
  int error = 0;
  for (size_t i = 0; i < parts.size() && error == 0; ++i) error = write_all(fd, parts[i]);
  return error;
}

// Opens `path` with `flags` and writes `parts`. Returns 0 or errno.
int put_parts(const char* path, int flags, Parts parts) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC | flags, kMode);
  if (fd < 0) return errno;
  int error = put_parts(fd, parts);
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

// Creates a file that must not exist, with the permissions of `like` unless null, and syncs it. Returns 0 or errno. An
// incomplete file is removed.
int create(const char* path, Parts parts, const struct stat* like = nullptr) {
  const mode_t mode = like != nullptr ? like->st_mode & 0777 : kMode;
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, mode);
  if (fd < 0) return errno;
  static_cast<void>(::flock(fd, LOCK_EX | LOCK_NB));  // see is_being_written()
  // Restores bits cleared by the umask. Failure is ignored: some file systems have no permissions.
  if (like != nullptr) static_cast<void>(!::fchmod(fd, mode));
  int error = put_parts(fd, parts);
  // Sync before the rename: otherwise a power failure could leave the final name with missing contents.
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) ::unlink(path);
  return error;
}

void check(int error, const fs::path& path) {
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot write {}: {}", path.string(), system_reason(error));
}

// Whether a process on this machine may still be writing a temporary file.
bool is_being_written(const fs::path& temporary, pid_t writer) {
  if (::kill(writer, 0) == 0 || errno != ESRCH) return true;
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_locked = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0;  // by a process on another machine
  if (fd >= 0) ::close(fd);
  return is_locked;
}

// Removes the temporary files next to `path` that killed processes left: PATH.PID.NUMBER.tmp.
void remove_abandoned(const fs::path& path) {
  const std::string start = path.filename().string() + '.';
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    const std::string name = entry.path().filename().string();
    pid_t writer = 0;
    int number = 0, length = 0;
    if (!name.starts_with(start)) continue;
    const std::string rest = name.substr(start.size());
    if (std::sscanf(rest.c_str(), "%d.%d.tmp%n", &writer, &number, &length) == 2 && writer > 0 &&
        static_cast<size_t>(length) == rest.size() && !is_being_written(entry.path(), writer))
      ::unlink(entry.path().c_str());
  }
}

// Writes a temporary file next to `path` under an unused name. Returns its name.
std::string write_temporary(const fs::path& path, Parts parts) {
  remove_abandoned(path);
  constexpr int kMaxNames = 1000;
  std::string temporary;
  struct stat old {};
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  int error = EEXIST;
  for (int i = 0; i < kMaxNames && error == EEXIST; ++i) {
    temporary = fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), i);
    error = create(temporary.c_str(), parts, replaces ? &old : nullptr);
  }
  check(error, path);
  return temporary;
}

constexpr std::string_view kKindNames[] = {"SVG", "JSON", "npy",     "safetensors", "ONNX", "gzip",  "zip",
                                           "PNG", "PDF",  "metrics", "predictions", "text", "binary"};

std::string_view name_of(FileKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

// A JSON document or lines of them. Not YAML in braces, or the section of a configuration file.
bool is_json(std::string_view start) {
  constexpr std::string_view kSpace = " \t\r\n", kInList = "[]{\"-0123456789";
  const size_t open = start.find_first_not_of(kSpace);
  if (open == start.npos || (start[open] != '{' && start[open] != '[')) return false;
  const size_t next = start.find_first_not_of(kSpace, open + 1);
  if (next == start.npos) return true;
  return start[open] == '{' ? start[next] == '"' || start[next] == '}' : kInList.find(start[next]) != kInList.npos;
}

// A header of 8 bytes with the length of a JSON object, which follows.
bool is_safetensors(std::string_view start) {
  constexpr size_t kBeforeHeader = 8;
  return start.size() > kBeforeHeader && start[kBeforeHeader] == '{' && start[kBeforeHeader - 1] == '\0';
}

// A protobuf message that begins with the fields ir_version, and producer_name or graph.
bool is_onnx(std::string_view start) {
  constexpr char kIrVersion = 0x08, kProducer = 0x12, kGraph = 0x3A;
  return start.size() > 2 && start[0] == kIrVersion && (start[2] == kProducer || start[2] == kGraph);
}

// The columns of report::prediction_csv() end with the row and, if some rows have no prediction, the reason.
bool is_predictions(std::string_view start) {
  const std::string_view header = start.substr(0, start.find('\n'));
  return header == "row" || header.ends_with(",row") || header.ends_with(",row,error");
}

// Refuses to replace a file of another kind, because an earlier command probably did not write it.
void check_kind(const fs::path& path, FileKind kind) {
  std::string old(kStartBytes, '\0');
  RegularFile file(path);
  const ssize_t got = file.is_open() ? file.read(std::as_writable_bytes(std::span(old))) : 0;
  old.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  RUN_CHECK(old.empty() || kind_of(old) == kind, ErrorKind::kUsage,
            "{} exists and is {}, not {}; choose another file or remove it", path.string(), name_of(kind_of(old)),
            name_of(kind));
}

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

FileKind kind_of(std::string_view contents) {
  constexpr std::pair<std::string_view, FileKind> kStarts[] = {
      {"<svg", FileKind::kSvg},       {"\x93NUMPY", FileKind::kNpy}, {"\x1f\x8b", FileKind::kGzip},
      {"PK\x03\x04", FileKind::kZip}, {"\x89PNG", FileKind::kPng},   {"%PDF", FileKind::kPdf}};
  const std::string_view start = contents.substr(0, kStartBytes);
  for (const auto& [bytes, kind] : kStarts)
    if (start.starts_with(bytes)) return kind;
  if (is_json(start)) return FileKind::kJson;
  if (is_safetensors(start)) return FileKind::kSafetensors;
  if (is_onnx(start)) return FileKind::kOnnx;
  if (start.starts_with(csv_header(/*origins=*/false))) return FileKind::kMetrics;
  if (is_predictions(start)) return FileKind::kPredictions;
  return start.find('\0') == std::string_view::npos ? FileKind::kText : FileKind::kBinary;
}

void write_file(const fs::path& path, std::string_view contents, FileKind kind) {
  write_parts(path, std::span(&contents, 1), kind);
}

void write_parts(const fs::path& path, Parts parts, FileKind kind) {
  std::error_code ignored;  // for a broken path; writing reports the error
  const fs::path target = fs::is_symlink(path, ignored) ? resolved_path(path) : path;
  // Anything other than a regular file is written to in place.
  if (fs::exists(fs::symlink_status(target, ignored)) && !fs::is_regular_file(target, ignored)) {
    return check(put_parts(target.c_str(), O_CREAT, parts), path);
  }
  check_output(path);
  check_kind(target, kind);
  const std::string temporary = write_temporary(target, parts);
  if (std::rename(temporary.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  check(error, path);
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  RUN_CHECK(!error, ErrorKind::kRun, "cannot create the folder {}: {}", folder.string(), error.message());
}

void write_new_file(const fs::path& path, std::string_view contents) {
  check_output(path);
  const int error = create(path.c_str(), std::span(&contents, 1));
  RUN_CHECK(error != EEXIST, ErrorKind::kUsage, "{} already exists; choose another file or remove it", path.string());
  check(error, path);
}

NewFiles::~NewFiles() {
  std::error_code ignored;
  for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) fs::remove(*path, ignored);
}

void NewFiles::add(const fs::path& path) {
  std::error_code ignored;  // writing reports the error
  if (!fs::exists(fs::symlink_status(path, ignored))) paths_.push_back(path);
}

}  // namespace runner::formats
