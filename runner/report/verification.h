// Output of `verify-resume`. Thread-safe.
#pragma once

#include <string>

#include "runner/train/run/verify_resume.h"

namespace runner::report {

std::string verification_text(const train::VerifyReport& verdict);
// docs/cli.md lists the keys.
std::string verification_document(const train::VerifyReport& verdict);

}  // namespace runner::report
