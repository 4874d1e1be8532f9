#include "store/spool.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/sha256.h"
#include "store/network.h"
#include "store/run_store.h"

namespace runner::store {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Spools of different stores are in different folders, so that those of a store are found without opening any.
fs::path folder_for(const fs::path& store) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(store, ignored);
  return spool_root() / fmt::format("{}-{}", real.stem().string(), hex(sha256(real.string())).substr(0, 12));
}

// Creates the folder for the user alone, because it contains recipes, hooks and data.
void create_private(const fs::path& folder) {
  constexpr const char* kAdvice = "set RUNNER_SPOOL to a folder on a local disk";
  std::error_code ignored;
  fs::create_directories(folder.parent_path(), ignored);
  RUN_CHECK(::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST, ErrorKind::kStore,
            "the folder for spools {} cannot be created: {}; {}", folder.string(), std::strerror(errno), kAdvice);
  struct stat status {};
  const bool is_own = ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  RUN_CHECK(is_own, ErrorKind::kStore, "the folder for spools {} is not a folder that only you can write; {}",
            folder.string(), kAdvice);
  const std::string network = network_file_system(folder / "spool");
  RUN_CHECK(network.empty(), ErrorKind::kStore, "the folder for spools {} is on a network file system ({}); {}",
            folder.string(), network, kAdvice);
}

std::string lock_file_of(const fs::path& file) {
  return file.string() + ".lock";
}

// A lock on the whole file. It belongs to the open file, so that it also excludes other threads.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Returns the descriptor; -1 if another process has the lock, or has just removed it. The kernel releases it when the
// process ends.
int take_lock(const fs::path& file) {
  const int lock = ::open(lock_file_of(file).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  RUN_CHECK(lock >= 0, ErrorKind::kStore, "the spool {} cannot be locked: {}", file.string(), std::strerror(errno));
  struct flock wanted = whole_file();
  struct stat status {};
  if (::fcntl(lock, F_OFD_SETLK, &wanted) == 0 && ::fstat(lock, &status) == 0 && status.st_nlink > 0) return lock;
  ::close(lock);
  return -1;
}

}  // namespace

fs::path spool_root() {
  if (const std::string chosen = variable("RUNNER_SPOOL"); !chosen.empty()) return fs::absolute(chosen);
  const std::string temporary = variable("TMPDIR");
  return fs::path(temporary.empty() ? "/var/tmp" : temporary) / fmt::format("runner-spool-{}", ::geteuid());
}

std::vector<fs::path> spools_of(const fs::path& store) {
  std::vector<fs::path> spools;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_for(store), none))
    if (entry.path().extension() == ".db") spools.push_back(entry.path());
  std::ranges::sort(spools);
  return spools;
}

bool is_spool(const fs::path& file) {
  return is_inside(file, spool_root());
}

bool is_spool_of(const fs::path& file, const fs::path& store) {
  return is_inside(file, folder_for(store));
}

Spool Spool::create(const fs::path& store) {
  create_private(spool_root());
  const fs::path folder = folder_for(store);
  create_private(folder);
  while (true) {
    fs::path file = folder / fmt::format("{}.db", new_run_uid());  // sorts by time
    if (const int lock = take_lock(file); lock >= 0) return {std::move(file), lock};
  }
}

std::optional<Spool> Spool::claim(const fs::path& file) {
  const int lock = take_lock(file);
  if (lock < 0) return std::nullopt;
  return Spool(file, lock);
}

bool Spool::is_in_use(const fs::path& file) {
  const int lock = ::open(lock_file_of(file).c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return false;
  struct flock found = whole_file();
  const bool is_locked = ::fcntl(lock, F_OFD_GETLK, &found) == 0 && found.l_type != F_UNLCK;
  ::close(lock);
  return is_locked;
}

Spool::Spool(Spool&& other) noexcept : file_(std::move(other.file_)), lock_(std::exchange(other.lock_, -1)) {}

Spool::~Spool() {
  if (lock_ >= 0) ::close(lock_);
}

void Spool::remove() {
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) fs::remove(file_.string() + suffix, ignored);
}

}  // namespace runner::store
