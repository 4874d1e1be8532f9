// Compares tokenizers with figures of reference implementations. Throws nothing; failures are those of GoogleTest.
#pragma once

#include <string>

#include "runner/text/tokenizer.h"

namespace runner::text {

// Compares ids and texts with those of tests/text/figures/NAME.figures.jsonl, which has at least `least` rows.
// RUNNER_TOKENIZER_FIGURES=FOLDER reads figures of other strings.
void compare_figures(const Tokenizer& tokenizer, const std::string& name, int least = 500);

}  // namespace runner::text
