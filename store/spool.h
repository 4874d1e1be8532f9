// Spools: stores on a local disk in which runs are recorded whose own store is on a network file system.
//
// A spool belongs to one process at a time, which holds a lock on SPOOL.lock. A process that is killed leaves its
// spool, and any process of the user can claim it. Spools are in RUNNER_SPOOL, or else in a folder of the user in
// TMPDIR or /var/tmp, in a folder for each store. Thread safety: a Spool belongs to one thread at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace runner::store {

// Returns the folder for all spools of this user, which need not exist.
std::filesystem::path spool_root();

// Returns the spools of a store, oldest first, also those in use.
std::vector<std::filesystem::path> spools_of(const std::filesystem::path& store);

// Whether a file is a spool of any store.
bool is_spool(const std::filesystem::path& file);
// Whether a file is one of the spools of a store.
bool is_spool_of(const std::filesystem::path& file, const std::filesystem::path& store);

class Spool {
 public:
  // Names a new spool of a store, and creates its folder. Throws Error(kStore) if that is not possible, or the folder
  // is on a network file system or of another user.
  static Spool create(const std::filesystem::path& store);
  // Claims an existing spool. Returns nullopt if another process has it.
  static std::optional<Spool> claim(const std::filesystem::path& file);
  // Whether a process has the spool. Takes no lock.
  static bool is_in_use(const std::filesystem::path& file);

  Spool(Spool&& other) noexcept;
  Spool& operator=(Spool&&) = delete;
  // Leaves the file.
  ~Spool();

  const std::filesystem::path& file() const { return file_; }

  // Removes the file and its lock. No connection may be open.
  void remove();

 private:
  Spool(std::filesystem::path file, int lock) : file_(std::move(file)), lock_(lock) {}

  std::filesystem::path file_;
  int lock_ = -1;  // descriptor
};

}  // namespace runner::store
