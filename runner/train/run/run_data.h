// Reads the data of a run.
#pragma once

#include "backends/dist/process_group.h"
#include "runner/data/load.h"
#include "runner/train/run/run.h"

namespace runner::train {

// Returns the data of the request, or reads them. A run that continues another keeps its classes (LabelRules::known).
// `ranks`: process group, or null. Collective, unless the request has data: only rank 0 knows the store.
data::SharedData data_of(const RunRequest& request, backends::ProcessGroup* ranks);

}  // namespace runner::train
