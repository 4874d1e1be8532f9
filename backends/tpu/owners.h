// Whose numbers a Program computes with: the user's tensors, which are on the device, or the engine's accounts of them.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

// Whose floats an op takes, or has where it takes none.  What is computed of constants and integers alone is the
// engine's where an account takes it, and the user's elsewhere.
enum class Owner : uint8_t {
  kNobody,  // no floats, a constant, or of those alone and on its way into an account
  kEngine,  // states of f64, what ops::on_host() marks, and what is computed of these alone
  kUser,
};

// By node.
std::vector<Owner> owners_of(const Program& program);

// By node: whether its floats are the engine's, as the engine has them.  So are inputs that only marks read, and what
// is nobody's.
std::vector<bool> accounts_of(const Program& program);

// Whether a node is what ops::on_host() records.
bool marks_host(const Program& program, ValueId id);

}  // namespace runner::backends::tpu
