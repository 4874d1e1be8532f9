// Output of `predict`. Thread-safe.
#pragma once

#include <string>

#include "runner/train/run/stored_model.h"

namespace runner::report {

// Returns the name or number of the most likely class of a sample; "" for targets.
std::string predicted_class(const train::Prediction& prediction, int64_t sample);

// One line for each sample. For classes: "class", then the logit of each class under its name or number. For targets:
// "target_0", ….
std::string prediction_csv(const train::Prediction& prediction);

// The outputs as an array (samples, outputs) of little-endian f32 in NumPy format version 1.0.
std::string prediction_npy(const train::Prediction& prediction);

// docs/cli.md lists the keys.
std::string prediction_document(const std::string& run, int64_t state, const train::Prediction& prediction);

}  // namespace runner::report
