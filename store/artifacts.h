// Artifacts: files that a run keeps (a plot, a vocabulary, a table of errors), by name.
//
// Their bytes lie in the table that states use: equal pieces are there once, and go when nothing uses them.  A name
// that is saved again keeps both; the newest one that no resume has taken back is what a name means.  Reading checks
// every byte.  An artifact exists if and only if its transaction is committed. Thread safety: as the Store given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/sha256.h"
#include "store/run_store.h"

namespace runner::store {

inline constexpr int64_t kLargestArtifact = int64_t{1} << 30;  // bytes; one transaction writes them

struct ArtifactHeader {
  std::string name;  // a relative path such as "plots/confusion.csv": no empty part, ".", ".." or control character
  std::string kind;  // what it is for: "plot", "table"; may be empty
  std::string meta;  // the caller's text (JSON); comes back as given
  int64_t step = 0;  // after which it was made
};

struct ArtifactInfo {
  int64_t id = 0;
  int64_t run_id = 0;
  int64_t attempt = 0;
  ArtifactHeader header;
  int64_t bytes = 0;
  int64_t new_bytes = 0;    // of the pieces that were not in the store when it was saved
  Sha256Digest digest{};    // of all bytes
  bool superseded = false;  // made beyond the step from which a later attempt resumed
  int64_t created_ms = 0;   // since 1970, UTC
};

// Bytes, or a file that is read piece by piece while it is saved.
using ArtifactSource = std::variant<std::vector<std::byte>, std::filesystem::path>;

// Throws Error(kRun) for a text that cannot be the name of one.
void check_artifact_name(std::string_view name);

// Saves in one transaction.  Throws Error(kRun): the name cannot be one, the file cannot be read, more than
// kLargestArtifact bytes; Error(kStore).  Nothing is changed then.
ArtifactInfo save_artifact(Store& store, const RunHandle& run, const ArtifactHeader& header,
                           const ArtifactSource& source);

// In the order saved, superseded ones included.
std::vector<ArtifactInfo> list_artifacts(Store& store, int64_t run_id);

// The newest one of that name that is not superseded.  Throws Error(kNotFound) with the nearest names.
ArtifactInfo find_artifact(Store& store, int64_t run_id, std::string_view name);

// Throws Error(kStore) that names artifact and piece if anything is not as it was saved.
std::vector<std::byte> read_artifact(Store& store, const ArtifactInfo& artifact);

}  // namespace runner::store
