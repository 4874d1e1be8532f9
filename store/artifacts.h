// Artifacts: named files that a run keeps, such as a plot, a vocabulary or an error table.
//
// Their bytes are stored in the `content` table, as those of checkpoints are: equal chunks are stored once and deleted
// when unused. Saving a name again keeps both versions. A name refers to its newest version that is not superseded.
// Reading verifies every digest. An artifact exists if and only if its transaction has committed. Thread safety: as for
// the given Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/base/sha256.h"
#include "store/run_store.h"

namespace runner::store {

inline constexpr int64_t kLargestArtifact = int64_t{1} << 30;  // bytes; an artifact is written in one transaction

struct ArtifactHeader {
  std::string name;  // relative path such as "plots/confusion.csv", without empty parts, ".", ".." and control
                     // characters
  std::string kind;  // purpose, such as "plot" or "table"; may be empty
  std::string meta;  // JSON text of the caller, returned unchanged
  int64_t step = 0;  // optimizer step after which it was saved
};

struct ArtifactInfo {
  int64_t id = 0;
  int64_t run_id = 0;
  int64_t attempt = 0;
  ArtifactHeader header;
  int64_t bytes = 0;
  int64_t new_bytes = 0;    // size of the chunks that this save added to the store
  Sha256Digest digest{};    // SHA-256 of all bytes
  bool superseded = false;  // saved after the step from which a later attempt resumed
  int64_t created_ms = 0;   // Unix time in ms
};

// Bytes in memory, or a file that is read chunk by chunk during the save.
using ArtifactSource = std::variant<std::vector<std::byte>, std::filesystem::path>;

// Throws Error(kRun) if `name` is not a valid artifact name.
void check_artifact_name(std::string_view name);

// Saves an artifact in one transaction. Throws Error(kRun) if the name is invalid, the file cannot be read, or there
// are more than kLargestArtifact bytes. Throws Error(kStore) if the store cannot be written. Changes nothing on
// failure.
ArtifactInfo save_artifact(Store& store, const RunHandle& run, const ArtifactHeader& header,
                           const ArtifactSource& source);

// Returns all artifacts of a run in the order saved, including superseded ones.
std::vector<ArtifactInfo> list_artifacts(Store& store, int64_t run_id);

// Returns the newest artifact with this name that is not superseded. Throws Error(kNotFound) with the nearest names if
// there is none.
ArtifactInfo find_artifact(Store& store, int64_t run_id, std::string_view name);

// Returns the bytes. Throws Error(kStore) naming the artifact and the chunk if a checksum does not match.
std::vector<std::byte> read_artifact(Store& store, const ArtifactInfo& artifact);

}  // namespace runner::store
