// Data that one rank of each host reads and all its ranks use, without a copy for each.
#pragma once

#include <functional>

#include "backends/dist/process_group.h"
#include "runner/data/load.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Calls `load` on the first rank of each host, or on all ranks if they share no memory. Its large arrays move to memory
// that the ranks of the host share. However long reading takes, the other ranks wait while that rank is alive, and it
// may use their cores.
// `recipe`: that of the data. Collective. Throws what `load` throws.
data::SharedData read_once_per_host(backends::ProcessGroup& ranks, const schema::Recipe& recipe,
                                    const std::function<data::Data()>& load);

}  // namespace runner::train
