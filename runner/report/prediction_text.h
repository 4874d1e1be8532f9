// Output of `predict`. Thread-safe.
#pragma once

#include <string>

#include "runner/train/run/stored_model.h"

namespace runner::report {

// Says what the outputs are: "logits".
std::string description(const train::Prediction& prediction);

// A header and one line for each row, or for each token of a row that is no padding: with classes "class", the most
// likely one; the outputs, named "logit_CLASS", "probability_CLASS", or as the targets; of images "file"; "row", from
// 0; of tokens "token", its position; if some rows have no prediction, "error" with the reason.
std::string prediction_csv(const train::Prediction& prediction);

// In NumPy format version 1.0, little-endian: the outputs (samples, outputs) f32, NaN in a row without prediction; with
// kClasses the class numbers (samples) i64, −1 in such a row. Of tokens (samples, T, outputs) and (samples, T), in
// which padding is as a row without prediction.
std::string prediction_npy(const train::Prediction& prediction);

// docs/cli.md lists the keys.
std::string prediction_document(const std::string& run, int64_t state, const train::Prediction& prediction);

}  // namespace runner::report
