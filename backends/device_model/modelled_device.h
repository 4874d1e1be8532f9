// A device and the model that observes it. The only place where the engine's calls reach a model (device_model.h).
//
// Thread safety: as for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/exec/backend.h"

namespace runner::backends {

class ModelledDevice final : public Device, private DeviceStreams {
 public:
  explicit ModelledDevice(std::shared_ptr<Device> device,
                          std::unique_ptr<DeviceModel> model = std::make_unique<NullDeviceModel>())
      : device_(std::move(device)), model_(std::move(model)) {}

  // For code that reports what the model has found.
  DeviceModel& model() const { return *model_; }

  std::string_view name() const override { return device_->name(); }
  // Whether graphs of the user's code are followed; see DeviceModel::traces_graphs().
  bool traces_graphs() const { return model_->traces_graphs(); }
  // Whether the device has memory of its own, which memory_limit() is the size of. Each rank then has its own copy of
  // what ranks share in host memory.
  bool has_own_memory() const { return model_->memory_limit().has_value(); }

  // ---- memory ----

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return allocate(bytes, "an array"); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return device_->wrap(std::move(memory), bytes);
  }
  // Like allocate() and wrap(), for an array that a rank would own if it shared nothing with others. Throw OutOfMemory
  // if the device's own memory is exhausted.
  std::shared_ptr<Buffer> allocate(size_t bytes, std::string_view name);
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes, std::string_view name);
  // See DeviceModel::describe_arrays().
  void describe_arrays(ArrayDescriptions descriptions) { model_->describe_arrays(std::move(descriptions)); }
  // See DeviceModel::expect_arrays().
  void expect_arrays(std::span<const ArrayBytes> arrays, std::span<const ArrayBytes> for_parts) {
    model_->expect_arrays(arrays, for_parts);
  }
  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override;
  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override;
  bool has_views() const override { return device_->has_views(); }
  std::span<const std::byte> view(const Buffer& buffer) const override { return device_->view(buffer); }
  // Of the device's own memory if it has some, otherwise the limit of the process.
  std::optional<int64_t> memory_limit() const override {
    return has_own_memory() ? model_->memory_limit() : device_->memory_limit();
  }
  // Limit of the process that runs Programs must check; none: no limit but the system's.
  std::optional<int64_t> process_memory_limit() const { return device_->memory_limit(); }
  // See DeviceModel::peak_memory().
  std::optional<int64_t> peak_memory(std::span<const ArrayBytes> arrays, std::span<const PlannedSubmission> training,
                                     std::span<const PlannedSubmission> evaluation) const;
  // What the model knows about an executable of a ModelledDevice; null if it ignores the executable.
  static ModelStep* model_step(const Executable& executable);
  size_t temporary_bytes() const override { return device_->temporary_bytes(); }
  void release_temporary() override;

  // ---- Programs ----

  std::shared_ptr<Executable> compile(const Program& program) override { return compile(program, UserGraph()); }
  std::shared_ptr<Executable> compile(const Program& program, const UserGraph& graph);
  bool rounds_operands() const override { return device_->rounds_operands(); }
  bool runs_asynchronously() const override { return device_->runs_asynchronously(); }
  bool calls_events() const override { return device_->calls_events(); }
  Ticket submit(Executable& executable, const Submission& submission) override {
    return submit(executable, submission, {});
  }
  Ticket submit(Executable& executable, const Submission& submission, const SubmissionInfo& info);
  // A submission that the model has refused has written nothing.
  bool has_written_states() const override { return !is_refused_ && device_->has_written_states(); }
  DeviceStreams* streams() override { return device_->streams() != nullptr ? this : nullptr; }
  void read_output(Executable& executable, int index, std::span<std::byte> target) override;
  void wait(Ticket ticket) override { device_->wait(ticket); }
  void synchronize() override { device_->synchronize(); }

  // ---- for the model ----

  void on_host_event(HostEvent event, int64_t times = 1) { model_->on_host_event(event, times); }
  // See DeviceModel.
  StateTensors set_state_tensors(StateTensors tensors) { return model_->set_state_tensors(std::move(tensors)); }
  std::vector<std::string> take_warnings() { return model_->take_warnings(); }
  std::vector<std::string> analysis() const { return model_->analysis(); }

 private:
  uint64_t stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) override;
  bool has_staged(uint64_t ticket) const override { return device_->streams()->has_staged(ticket); }
  void drop_staged() noexcept override;
  std::shared_ptr<Event> make_event() override { return device_->streams()->make_event(); }
  void record(Event& event) override { device_->streams()->record(event); }

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<DeviceModel> model_;  // destroyed before the device, which it may refer to
  bool is_refused_ = false;                   // the newest submission, by the model
};

// While an object exists, the device model ignores what is compiled, submitted, read or written: neither memory nor
// time counts. Executables compiled meanwhile must not be submitted later.
class ModelPause {
 public:
  explicit ModelPause(const ModelledDevice& device) : model_(device.model()) { model_.pause(); }
  ~ModelPause() { model_.resume(); }
  ModelPause(const ModelPause&) = delete;
  ModelPause& operator=(const ModelPause&) = delete;

 private:
  DeviceModel& model_;
};

}  // namespace runner::backends
