// Bytes that are kept once per content: the table `content`, which states, artifacts and sources share.
//
// A row lives as long as something names it; whoever removes a user of rows calls remove_unused_content() in the same
// transaction.
// Thread safety: as the Database given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "schema/sha256.h"
#include "store/sqlite.h"

namespace runner::store {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(const Sha256Digest& digest) {
  return std::as_bytes(std::span(digest));
}
bool equal(Bytes a, Bytes b);

// Puts bytes where they are not there yet and finds their row.  Inside a transaction.
class ContentTable {
 public:
  explicit ContentTable(Database& database);

  // `digest`: SHA-256 of `bytes`.  Returns the row's id.
  int64_t put(const Sha256Digest& digest, Bytes bytes);
  int64_t new_bytes() const { return new_bytes_; }

 private:
  Database& database_;
  Statement find_, insert_;
  int64_t new_bytes_ = 0;
};

// The rows that a run's states, artifacts and sources use.
std::set<int64_t> content_of_run(Database& database, int64_t run_id);

// Removes those rows of `candidates` that nothing uses any more.
void remove_unused_content(Database& database, const std::set<int64_t>& candidates);

// Removes every row that nothing uses.
void remove_unused_content(Database& database);

}  // namespace runner::store
