// What replicas tell each other about a window.
#pragma once

#include <cstdint>
#include <string>

#include "backends/collectives/collectives.h"
#include "runner/train/trainer.h"

namespace runner::train {

// Metrics of all replicas: each sum is the fold over ranks.  A name that a replica lacks counts as nothing there.
MetricSums merged(const MetricSums& mine, backends::Collectives& ranks, const backends::Site& site);

// A digest of those of all replicas, in the order of ranks.
uint64_t digest_of_all(uint64_t mine, backends::Collectives& ranks, const backends::Site& site);

}  // namespace runner::train
