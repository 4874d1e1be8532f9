// What `predict` writes.  Thread-safe.
#pragma once

#include <string>

#include "runner/train/states/stored_model.h"

namespace runner::report {

// The most likely class of a sample as its name or number; empty for targets.
std::string predicted_class(const train::Prediction& prediction, int64_t sample);

// A line for each sample.  Classes: "class", then the logit of each class, titled with its name or number; targets:
// "target_0", ….
std::string prediction_csv(const train::Prediction& prediction);

// The outputs as one array (samples, outputs) of little-endian f32 in NumPy's format, version 1.0.
std::string prediction_npy(const train::Prediction& prediction);

// {"run", "state", "samples", "classes": [names or numbers], "predictions": [class, …], "outputs": [[…], …]}; for
// targets "classes" and "predictions" are null.
std::string prediction_document(const std::string& run, int64_t state, const train::Prediction& prediction);

}  // namespace runner::report
