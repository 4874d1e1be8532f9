#include "backends/device_model/modelled_device.h"

#include <utility>

namespace runner::backends {
namespace {

class ModelledExecutable final : public Executable {
 public:
  explicit ModelledExecutable(DeviceModel::Compiled compiled) : compiled_(std::move(compiled)) {}

  size_t arena_bytes() const override { return compiled_.executable->arena_bytes(); }
  int64_t flops() const override { return compiled_.executable->flops(); }
  int64_t bytes() const override { return compiled_.executable->bytes(); }

  Executable& of_device() const { return *compiled_.executable; }
  ModelStep* step() const { return compiled_.step.get(); }

 private:
  const DeviceModel::Compiled compiled_;
};

const ModelledExecutable& modelled(const Executable& executable) {
  return static_cast<const ModelledExecutable&>(executable);
}

std::vector<const ModelStep*> steps_of(std::span<const PlannedSubmission> submissions) {
  std::vector<const ModelStep*> steps;
  for (const PlannedSubmission& submission : submissions)
    if (const ModelStep* const step = modelled(*submission.executable).step()) steps.push_back(step);
  return steps;
}

// The buffer, which keeps the model's object alive.
std::shared_ptr<Buffer> with(std::shared_ptr<void> counted, std::shared_ptr<Buffer> buffer) {
  if (counted == nullptr) return buffer;
  struct Both {
    std::shared_ptr<void> counted;
    std::shared_ptr<Buffer> buffer;
  };
  Buffer* const pointer = buffer.get();
  return {std::make_shared<Both>(Both{std::move(counted), std::move(buffer)}), pointer};
}

}  // namespace

// The model counts an array before the host allocates it.
std::shared_ptr<Buffer> ModelledDevice::allocate(size_t bytes, std::string_view name) {
  std::shared_ptr<void> counted = model_->on_allocate(static_cast<int64_t>(bytes), name);
  return with(std::move(counted), device_->allocate(bytes));
}

std::shared_ptr<Buffer> ModelledDevice::wrap(std::shared_ptr<std::byte> memory, size_t bytes, std::string_view name) {
  std::shared_ptr<void> counted = model_->on_allocate(static_cast<int64_t>(bytes), name);
  return with(std::move(counted), device_->wrap(std::move(memory), bytes));
}

void ModelledDevice::write(Buffer& buffer, size_t offset, std::span<const std::byte> source) {
  model_->on_copy_in(static_cast<int64_t>(source.size()));
  device_->write(buffer, offset, source);
}

void ModelledDevice::read(const Buffer& buffer, size_t offset, std::span<std::byte> target) {
  model_->on_copy_out(static_cast<int64_t>(target.size()));
  device_->read(buffer, offset, target);
}

std::optional<int64_t> ModelledDevice::peak_memory(std::span<const ArrayBytes> arrays,
                                                   std::span<const PlannedSubmission> training,
                                                   std::span<const PlannedSubmission> evaluation) const {
  return model_->peak_memory(arrays, steps_of(training), steps_of(evaluation));
}

ModelStep* ModelledDevice::model_step(const Executable& executable) {
  return modelled(executable).step();
}

void ModelledDevice::release_temporary() {
  device_->release_temporary();
  model_->on_release_temporary();
}

std::shared_ptr<Executable> ModelledDevice::compile(const Program& program, const UserGraph& graph) {
  return std::make_shared<ModelledExecutable>(
      model_->on_compile(program, graph, [&] { return device_->compile(program); }));
}

Ticket ModelledDevice::submit(Executable& executable, const Submission& submission, const SubmissionInfo& info) {
  Executable& ready = modelled(executable).of_device();
  ModelStep* const step = modelled(executable).step();
  is_refused_ = true;
  if (step == nullptr) {
    is_refused_ = false;
    return device_->submit(ready, submission);
  }
  Submission seen = submission;
  if (seen.staged != 0 && !has_staged(seen.staged)) seen.staged = 0;
  model_->on_submit(*step, seen, info);
  is_refused_ = false;
  Ticket ticket = 0;
  try {
    ticket = device_->submit(ready, seen);
  } catch (...) {
    model_->on_submitted(*step, info, /*failed=*/true);
    throw;
  }
  model_->on_submitted(*step, info, /*failed=*/false);
  return ticket;
}

void ModelledDevice::read_output(Executable& executable, int index, std::span<std::byte> target) {
  model_->on_copy_out(static_cast<int64_t>(target.size()));
  device_->read_output(modelled(executable).of_device(), index, target);
}

uint64_t ModelledDevice::stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) {
  const uint64_t ticket = device_->streams()->stage(modelled(like).of_device(), inputs);
  std::vector<int64_t> bytes;
  for (const std::span<const std::byte> input : inputs) bytes.push_back(static_cast<int64_t>(input.size()));
  if (const ModelStep* const step = modelled(like).step()) model_->on_stage(ticket, *step, std::move(bytes));
  return ticket;
}

void ModelledDevice::drop_staged() noexcept {
  model_->on_drop_staged();
  device_->streams()->drop_staged();
}

}  // namespace runner::backends
