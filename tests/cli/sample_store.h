// A store with one run of each kind, for tests of output.
#pragma once

#include <filesystem>

namespace runner::cli::testing {

// Creates a store at `path` with three runs. 0000000aaa "wine" is done and has a NaN point, two states (one pinned), an
// artifact, an event, a tag and a note. 0000000bbb "digits" failed and is a child of the first. The process of
// 0000000ccc "digits" no longer exists.
void make_sample_store(const std::filesystem::path& path);

}  // namespace runner::cli::testing
