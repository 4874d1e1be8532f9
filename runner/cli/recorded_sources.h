// Source texts of a recorded run other than the recipe, and their comparison with the present files. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/train/engine/hooks.h"
#include "schema/recipe/recipe.h"
#include "store/queries.h"

namespace runner::cli {

// Returns the included recipes of the newest attempt that recorded any.
std::vector<store::AttemptSource> recorded_includes(const store::RunDetails& run);

struct RecordedHook {
  enum class Files { kSame, kChanged, kMissing };

  std::vector<train::HookSource> sources;  // from the newest attempt that recorded any; empty if none did
  // State of the files compared with `sources`; kMissing: the hook file itself is missing.
  Files files = Files::kSame;
  std::string file;  // the changed or missing file
};

// `recipe`: recipe of the run. A file that cannot be read counts as missing.
RecordedHook recorded_hook(const store::RunDetails& run, const schema::Recipe& recipe);

}  // namespace runner::cli
