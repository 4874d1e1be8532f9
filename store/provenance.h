// Provenance: what an attempt ran on, and which texts made it what it was.
//
// Equal environments and equal texts are there once.  Reading checks every digest.
// Thread safety: as the Store given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace runner::store {

struct RunHandle;  // store/run_store.h

// A text that the attempt was made from.
struct SourceText {
  std::string kind;  // "include", "hook", "diff"
  std::string path;  // as the recipe names it; from the hook's folder; the commit that the diff is against
  std::string text;
};

inline constexpr std::string_view kHookSource = "hook";

// Of the folder that holds the recipe.
struct GitState {
  std::string commit;  // empty: not known
  std::string branch;  // empty: not known, or no branch is checked out
  std::optional<bool> dirty;
  std::vector<std::string> untracked;  // names
  std::string note;                    // what is missing and why; empty: nothing
};

struct Provenance {
  GitState git;
  std::string environment_json;     // one object of texts, numbers and bools
  std::vector<SourceText> sources;  // each (kind, path) once
};

// What a process has recorded about its attempt.
struct AttemptProvenance {
  int64_t attempt = 0;
  Provenance provenance;
};

// Records it for the attempt of `run`, in place of what was recorded for it before.  Inside a transaction.
void put_provenance(Store& store, const RunHandle& run, const Provenance& provenance);

// By attempt; those of older runners, which recorded it later, may be absent.  Throws Error(kStore) that names what is
// damaged.
std::vector<AttemptProvenance> read_provenance(Store& store, int64_t run_id);

}  // namespace runner::store
