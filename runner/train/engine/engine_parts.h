// References of a Trainer's parts to each other.
#pragma once

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "runner/data/encoding.h"

namespace runner::train {

class DeviceArrays;
class Executor;
class StepHooks;
class InFlightStep;
class StepArguments;
class StepBuilder;
class Steps;
class UpdateClock;
class UserWork;
struct Counters;
struct GradAccumulation;
struct StepMetrics;

// Everything that steps are made from and run with. All of it outlives the parts that use it. A part must not use
// another one in its constructor unless the Trainer declares the other one first.
struct EngineParts {
  const StepBuilder& builder;
  const data::Encoding& encoding;
  backends::ModelledDevice& device;
  DeviceArrays& arrays;
  Executor& executor;
  UserWork& user;
  StepArguments& arguments;
  InFlightStep& in_flight;
  Steps& steps;
  Counters& counters;
  StepMetrics& metrics;
  const GradAccumulation& accumulation;
  UpdateClock* clock;             // null if the host counts updates
  StepHooks* hooks;               // null if there is no hook
  backends::ProcessGroup* ranks;  // null for a single process
};

}  // namespace runner::train
