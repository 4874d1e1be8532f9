// Follows a memory plan step by step and checks that every group reads what it should.
//
// Independent of how the plan was made: each byte of memory carries the name of the value, and its byte, that was last
// written there; a read that finds anything else is a fault, and so is a step that writes over what it still reads.
#pragma once

#include <string>
#include <vector>

#include "backends/plan/storage.h"

namespace runner::backends::testing {

// Empty, or the first fault.
std::string storage_fault(const Program& program, const std::vector<Group>& groups, const Storage& storage,
                          const std::vector<size_t>& scratch_bytes);

}  // namespace runner::backends::testing
