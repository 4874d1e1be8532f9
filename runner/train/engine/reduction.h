// Combines host values of all ranks in an optimizer step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/dist/process_group.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/not_finite.h"

namespace runner::train {

// Returns the metrics of all ranks; each sum is the left fold over ranks. A name that a rank lacks counts as zero.
// Collective.
MetricSums merged(const MetricSums& mine, backends::ProcessGroup& ranks, const backends::Site& site);

// Returns one digest of the digests of all ranks, in rank order. Collective.
uint64_t digest_of_all(uint64_t mine, backends::ProcessGroup& ranks, const backends::Site& site);

// Returns what the lowest rank with a result has found, or a NotFinite with the text `otherwise`. `ranks`: process
// group, or null for a single process. Collective.
NotFinite first_found(const std::optional<NotFinite>& mine, const std::string& otherwise, backends::ProcessGroup* ranks,
                      const backends::Site& site);

}  // namespace runner::train
