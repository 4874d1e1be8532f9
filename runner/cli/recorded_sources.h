// The texts that a run in the store was made from, beside its recipe's own, and what the hook's files say now.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/train/step/hooks.h"
#include "schema/recipe.h"
#include "store/queries.h"

namespace runner::cli {

// The included recipes of the newest attempt that has recorded any.
std::vector<store::SourceText> recorded_includes(const store::RunDetails& run);

struct RecordedHook {
  enum class Files { kSame, kChanged, kGone };

  std::vector<train::HookSource> sources;  // of the newest attempt that has recorded any; empty: none has
  Files files = Files::kSame;              // beside `sources`; kGone: the hook file itself is missing
  std::string file;                        // that is another one, or is missing
};

// `recipe`: that of the run.  A file that cannot be read counts as missing.
RecordedHook recorded_hook(const store::RunDetails& run, const schema::Recipe& recipe);

}  // namespace runner::cli
