// What inputs and outputs of a model mean, for the header of its safetensors files. Thread-safe.
#pragma once

#include "runner/data/encoding.h"
#include "runner/formats/safetensors.h"

namespace runner::train {

// Keys without a value are left out; lists are JSON:
// - "format": pt, as other libraries expect it;
// - "scale", "normalize", "center", "spread": a model gets (x · scale − center) / spread of the features x of a row;
// - "fill": what replaces missing values of a row, before `scale`;
// - "features", "label": columns; "classes": by the index of the output; "characters": of a text, by token.
formats::Metadata model_metadata(const data::Encoding& encoding, double scale);

}  // namespace runner::train
