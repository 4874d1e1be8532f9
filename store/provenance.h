// Provenance of an attempt: its environment, and the source texts that it was made from.
//
// Equal environments and equal texts are stored once. Reading verifies every digest. Thread safety: as for the given
// Store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/sha256.h"
#include "store/store.h"

namespace runner::store {

struct RunHandle;  // store/run_store.h

// A text that the attempt was made from.
struct AttemptSource {
  std::string kind;  // "include", "hook" or "diff"
  std::string path;  // include: as in the recipe; hook: relative to the hook's folder; diff: the commit it applies to
  std::string text;
};

inline constexpr std::string_view kHookSource = "hook", kDiffSource = "diff";

// A data file that the attempt read.
struct RecordedFile {
  std::string key, path;  // key of the recipe, such as data.train.path
  int64_t rows = 0;       // without a header
  int64_t bytes = 0;
  std::optional<Sha256Digest> digest = {};  // none: the file changed while the run read it, or is not read yet

  bool operator==(const RecordedFile&) const = default;
};

// Git state of the folder that contains the recipe.
struct GitState {
  std::string commit;  // empty if unknown
  std::string branch;  // empty if unknown, or if HEAD is detached
  std::optional<bool> dirty;
  std::vector<std::string> untracked;  // file names
  std::string note;                    // what is missing and why; empty if complete
};

struct Provenance {
  GitState git;
  std::string environment_json;        // a flat JSON object of strings, numbers and booleans
  std::vector<AttemptSource> sources;  // unique by (kind, path)
  std::vector<RecordedFile> data;      // unique by key
};

// Provenance that was recorded for one attempt.
struct AttemptProvenance {
  int64_t attempt = 0;
  Provenance provenance;
};

// Records or replaces the provenance of the attempt. Call it inside a transaction.
void put_provenance(Store& store, const RunHandle& run, const Provenance& provenance);

// Returns the provenance of a run in order of attempts. An attempt of an older version of runner may have none. Throws
// Error(kStore) naming the part that is damaged.
std::vector<AttemptProvenance> read_provenance(Store& store, int64_t run_id);

}  // namespace runner::store
