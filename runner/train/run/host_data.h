// Data that one rank of each host reads and all its ranks use: large arrays are in memory that they share.
#pragma once

#include <atomic>
#include <functional>

#include "backends/dist/process_group.h"
#include "runner/data/load.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Whether this rank reads the data of its host.
bool reads_data(backends::ProcessGroup& ranks);

// Calls `load` on the ranks that read, with the cores of all ranks of their host. Other ranks wait until reading ends,
// also longer than collective_timeout of `recipe`, which limits how long reading may hang. Collective. If a rank fails
// or `stop` becomes positive on rank 0, throws without waiting for `load`, which therefore owns what it uses; its
// InputFiles stop reading. Throws what `load` throws.
data::SharedData read_once_per_host(backends::ProcessGroup& ranks, const schema::Recipe& recipe,
                                    const std::atomic<int>& stop, std::function<data::Data()> load);

}  // namespace runner::train
