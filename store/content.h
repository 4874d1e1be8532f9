// Content-addressed storage. The table `content` stores equal bytes once; checkpoints, artifacts and sources share it.
//
// A row must exist as long as another table references it. Code that deletes references calls remove_unused_content()
// in the same transaction. Thread safety: as for the given Database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "schema/base/sha256.h"
#include "store/sqlite.h"

namespace runner::store {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(const Sha256Digest& digest) {
  return std::as_bytes(std::span(digest));
}
bool equal(Bytes a, Bytes b);

// Inserts bytes that are not stored yet and looks up those that are. Use it inside a transaction.
class ContentTable {
 public:
  explicit ContentTable(Database& database);

  // `digest`: SHA-256 of `bytes`. Returns the row id.
  int64_t put(const Sha256Digest& digest, Bytes bytes);
  // Total size of the rows that put() has inserted.
  int64_t new_bytes() const { return new_bytes_; }

 private:
  Database& database_;
  Statement find_, insert_;
  int64_t new_bytes_ = 0;
};

// Returns the ids of the rows that a run's checkpoints, artifacts and sources reference.
std::set<int64_t> content_of_run(Database& database, int64_t run_id);

// Deletes the rows of `candidates` that are no longer referenced.
void remove_unused_content(Database& database, const std::set<int64_t>& candidates);

// Deletes all rows that are not referenced.
void remove_unused_content(Database& database);

}  // namespace runner::store
