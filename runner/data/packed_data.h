// A Data that one process of a host has loaded and the others use: its arrays are in memory that they share.
#pragma once

#include <memory>
#include <string_view>

#include "runner/data/load.h"
#include "schema/base/packing.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

// Packs data that load() has returned. They must exist until the arrays have been copied.
Packer packed(const Data& data);

// Returns the same data. `text`, `arrays`: of the packer. `recipe`: that of the load. Files that samples are read from
// while training are opened again; throws Error(kData) if one has changed.
Data unpacked(std::string_view text, std::shared_ptr<std::byte> arrays, const schema::Recipe& recipe);

}  // namespace runner::data
