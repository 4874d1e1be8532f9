// Training samples as a picture: what the model gets, after augmentation. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/data/load.h"
#include "runner/images/image.h"
#include "schema/recipe/recipe.h"

namespace runner::report {

struct SampleSheet {
  images::Image image;              // contact sheet, row by row
  std::vector<std::string> labels;  // classes of the samples; empty for targets
  std::string values;               // which numbers are black and white, of features that were no bytes
};

// Shows the first samples, at most `most`, of the first batch of process 0, without a hook's transform. Normalisation
// is undone. Throws Error(kNotFound) if the samples are no images (H, W) or (C, H, W) with 1 or 3 channels.
SampleSheet sample_sheet(const data::Data& data, const schema::Recipe& recipe, int64_t most);

}  // namespace runner::report
