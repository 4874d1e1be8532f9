// A store with one run of each kind, for tests that print it.
#pragma once

#include <filesystem>

namespace runner::cli::testing {

// Makes `path`: 0000000aaa "wine", done, with a NaN point, two states (one pinned), an
// artifact, an event, a tag and a note;
// 0000000bbb "digits", failed, a child of the first; 0000000ccc "digits", whose process is gone.
void make_sample_store(const std::filesystem::path& path);

}  // namespace runner::cli::testing
