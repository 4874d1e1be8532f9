// Helpers for Programs: constants, Plans, and runs on a device or without one.
#pragma once

#include <memory>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/exec/plan.h"
#include "backends/runtime/arena.h"
#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

// Returns a constant of rank 0.
inline Value scalar(Program& program, double value, DType dtype = DType::kF32) {
  return {&program, program.constant(value, {dtype, {}})};
}

// Plan of a Program whose operations are launched one by one.
inline Plan launched_plan(const Program& program) {
  return build_plan(program, {.fusion = Fusion::kFlat});
}

// By input of the Program, in order; scalars are tensors of shape ().
using Inputs = std::vector<HostTensor>;

struct Results {
  std::vector<HostTensor> outputs;  // returned outputs, in order
  std::vector<HostTensor> states;   // all states after the run
  bool operator==(const Results&) const = default;
};

// A Program with its executable and states on a device.
class Session {
 public:
  Session(Device& device, const Program& program, const Inputs& inputs)
      : device_(device), program_(program), executable_(device.compile(program)), inputs_(inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program.inputs()[i].kind != InputKind::kState) continue;
      states_.push_back(device.allocate(inputs[i].bytes.size()));
      device.write(*states_.back(), 0, inputs[i].bytes);
    }
  }

  void set_input(size_t index, HostTensor tensor) { inputs_[index] = std::move(tensor); }

  int64_t step = 0;  // see SubmissionInfo::step
  bool evaluates = false;
  Ticket submit() {
    pointers_.clear(), batch_.clear(), scalars_.clear();
    for (const auto& state : states_) pointers_.push_back(state.get());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const InputKind kind = program_.inputs()[i].kind;
      if (kind == InputKind::kBatch) batch_.push_back(inputs_[i].bytes.data());
      if (kind == InputKind::kScalar) scalars_.push_back(inputs_[i][0]);
    }
    const Submission submission{.states = pointers_, .batch = batch_, .scalars = scalars_};
    if (auto* const modelled = dynamic_cast<ModelledDevice*>(&device_))
      return modelled->submit(*executable_, submission, {.step = step, .evaluates = evaluates});
    return device_.submit(*executable_, submission);
  }

  HostTensor output(size_t index) {
    HostTensor tensor(program_.type(program_.outputs()[index].value));
    device_.read_output(*executable_, static_cast<int>(index), tensor.bytes);
    return tensor;
  }

  Results results() {
    Results results;
    for (size_t i = 0; i < program_.outputs().size(); ++i)
      if (program_.outputs()[i].state < 0) results.outputs.push_back(output(i));
    size_t at = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (program_.inputs()[i].kind != InputKind::kState) continue;
      results.states.emplace_back(inputs_[i].type);
      device_.read(*states_[at++], 0, results.states.back().bytes);
    }
    return results;
  }

  Executable& executable() { return *executable_; }

 private:
  Device& device_;
  Program program_;
  std::shared_ptr<Executable> executable_;
  Inputs inputs_;
  std::vector<std::shared_ptr<Buffer>> states_;
  std::vector<Buffer*> pointers_;
  std::vector<const std::byte*> batch_;
  std::vector<double> scalars_;
};

// Results of a plan built with these options and run once, without a device.
inline Results run_plan_once(const Program& program, const Inputs& inputs, const PlanBuildOptions& options,
                             WorkerPool& pool) {
  const Plan plan = build_plan(program, options);
  const Arena arena(plan.arena_bytes);
  Inputs memory = inputs;
  std::vector<std::byte*> slots = {arena.data()};
  for (HostTensor& tensor : memory) slots.push_back(tensor.bytes.data());
  run_plan(plan, slots, pool);
  Results results;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Output& output = plan.program.outputs()[i];
    if (output.state >= 0) continue;
    HostTensor& tensor = results.outputs.emplace_back(plan.program.type(output.value));
    const std::byte* from = slots[static_cast<size_t>(plan.outputs[i].slot)] + plan.outputs[i].offset;
    std::copy(from, from + tensor.bytes.size(), tensor.bytes.data());
  }
  for (size_t i = 0; i < memory.size(); ++i)
    if (program.inputs()[i].kind == InputKind::kState) results.states.push_back(memory[i]);
  return results;
}

// Results after `times` executions.
inline Results run_program(Device& device, const Program& program, const Inputs& inputs, int times = 1) {
  Session session(device, program, inputs);
  for (int i = 0; i < times; ++i) session.submit();
  return session.results();
}

}  // namespace runner::backends::testing
