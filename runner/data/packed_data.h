// Loaded data as bytes; their large arrays go to memory that ranks share.
#pragma once

#include <memory>
#include <string_view>

#include "runner/data/load.h"
#include "schema/base/packing.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

// Packs data that load() has returned. They must outlive the use of the arrays, which move.
Packer pack_data(const Data& data);

// Returns the same data. `recipe`: that of the load. Files that samples are read from while training are opened again.
// Throws Error(kData) if a token file has changed; streams and images are checked when they are read.
Data unpack_data(std::string_view bytes, PackedArrays arrays, const schema::Recipe& recipe);

}  // namespace runner::data
