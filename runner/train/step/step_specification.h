// Keys of the plan cache: everything except the recorded Program that determines a step.
#pragma once

#include "backends/exec/plan_cache.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Key of a training step (declared_step.h). Equal for recipes that differ only in rates that are passed as scalars.
backends::StepSpecification training_specification(const StepBuilder& builder, const StepBuilder::Recorded& recorded,
                                                   const StepShape& shape);
// Key of StepBuilder::forward().
backends::StepSpecification forward_specification(const StepBuilder::Recorded& recorded, bool labelled, bool first);
// Key of a step that computes one value of a recording in progress.
backends::StepSpecification read_specification(backends::ValueId value);
// Key of a step that runs a traced region as recorded.
backends::StepSpecification region_specification();

}  // namespace runner::train
