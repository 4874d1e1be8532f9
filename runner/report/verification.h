// Output of `verify-resume`. Thread-safe.
#pragma once

#include <string>

#include "runner/train/run/verify_resume.h"

namespace runner::report {

std::string verification_text(const train::VerifyReport& verdict);
// {"exact", "optimizer_steps", "killed_at", "resumed_from", "tensors", "bytes", "points", "batches", "differences"}.
std::string verification_document(const train::VerifyReport& verdict);

}  // namespace runner::report
