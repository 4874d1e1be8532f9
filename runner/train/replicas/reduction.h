// What replicas tell each other about a window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/collectives/collectives.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/step_metrics.h"

namespace runner::train {

// Metrics of all replicas: each sum is the fold over ranks.  A name that a replica lacks counts as nothing there.
MetricSums merged(const MetricSums& mine, backends::Collectives& ranks, const backends::Site& site);

// A digest of those of all replicas, in the order of ranks.
uint64_t digest_of_all(uint64_t mine, backends::Collectives& ranks, const backends::Site& site);

// What the first replica that has found something has found; `otherwise`: what is said where none has.  `ranks`: null,
// or all of them, which call it together.
NotFinite first_found(const std::optional<NotFinite>& mine, const std::string& otherwise, backends::Collectives* ranks,
                      const backends::Site& site);

}  // namespace runner::train
