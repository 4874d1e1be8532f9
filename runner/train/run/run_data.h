// Reads the data of a run.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/dist/process_group.h"
#include "runner/data/load.h"
#include "runner/train/loop/checkpoint.h"
#include "runner/train/run/run.h"
#include "store/queries.h"

namespace runner::train {

// Returns the data of the request, or reads them. A run that continues another keeps its classes. `ranks`: process
// group, or null. Collective, unless the request has data: only rank 0 knows the store, and the first rank of a host
// reads for all of them.
data::SharedData data_of(const RunRequest& request, backends::ProcessGroup* ranks);

// Returns the host part of a state of a run, or of its newest one; none if no state has one that can be read.
std::optional<Checkpoint> host_part_of(store::Store& store, const store::RunRow& run,
                                       std::optional<int64_t> state = {});
// Returns its encoding.
std::optional<data::Encoding> encoding_of(store::Store& store, const store::RunRow& run,
                                          std::optional<int64_t> state = {});

}  // namespace runner::train
