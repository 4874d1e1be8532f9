#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/captured_graphs.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/gpu_clock.h"
#include "backends/gpu/gpu_device.h"
#include "backends/gpu/gpu_step.h"
#include "backends/gpu/time_forecast.h"

namespace runner::backends::gpu {
namespace {

// A block of the modelled memory.
class CountedArray {
 public:
  CountedArray(std::shared_ptr<DeviceMemory> memory, BlockId block) : memory_(std::move(memory)), block_(block) {}
  ~CountedArray() { memory_->free(block_); }
  CountedArray(const CountedArray&) = delete;
  CountedArray& operator=(const CountedArray&) = delete;

 private:
  const std::shared_ptr<DeviceMemory> memory_;
  const BlockId block_;
};

GpuClock::Options clock_options(const GpuOptions& options) {
  return {.machine = {.model = options.model, .gpus = options.gpus, .allow_tf32 = options.allow_tf32},
          .launch_blocking = options.launch_blocking};
}

class EmulatedGpuModel final : public GpuDeviceModel {
 public:
  explicit EmulatedGpuModel(const GpuOptions& options)
      : options_(options),
        name_(fmt::format("gpu {}", options.index)),
        memory_(std::make_shared<DeviceMemory>(
            MemorySpec{.device = name_,
                       .limit = options.memory.value_or(row_of(options.model).capacity_bytes),
                       .captures = options.capture})),
        clock_(clock_options(options)),
        captured_(name_, options.capture) {}

  const GpuDataSheet& hardware() const override { return row_of(options_.model); }
  const MemoryStatistics& memory_statistics() const override { return memory_->allocator().statistics(); }
  PredictedTime take_predicted_time() override { return clock_.take(); }
  PredictedTime predicted_step(std::span<const PlannedSubmission> submissions, bool prefetches) const override {
    return forecast_time(submissions,
                         {.clock = clock_options(options_), .replays = options_.capture, .prefetches = prefetches});
  }
  std::optional<CaptureCounters> captures() const override { return captured_.counters(); }
  std::vector<std::string> take_warnings() override { return captured_.take_warnings(); }

  bool traces_graphs() const override { return false; }
  std::optional<int64_t> memory_limit() const override { return memory_->allocator().limit(); }

  std::shared_ptr<void> on_allocate(int64_t bytes, std::string_view name) override {
    if (bytes == 0) return nullptr;
    const OwnerId owner = memory_->owners().intern(memory_->spec().describe(name));
    const BlockId block = memory_->allocate(bytes, kStreamPools.compute, owner);
    return std::make_shared<CountedArray>(memory_, block);
  }
  void describe_arrays(ArrayDescriptions descriptions) override { memory_->describe_arrays(std::move(descriptions)); }
  void expect_arrays(std::span<const ArrayBytes> arrays, std::span<const ArrayBytes> for_parts) override {
    memory_->expect_arrays(bytes_of(arrays), bytes_of(for_parts));
  }

  // Rounding operands to TF32 costs no time on a GPU, so the graph is that of the Program as recorded.
  Compiled on_compile(const Program& program, const UserGraph& graph,
                      const std::function<std::shared_ptr<Executable>()>& compile) override {
    std::shared_ptr<Executable> executable = compile();
    if (is_paused()) return {std::move(executable), nullptr};
    const std::optional<Program> other = graph ? graph() : std::nullopt;
    const Program* modelled = other ? &*other : uses_tf32(options_) ? &program : nullptr;
    try {
      auto step = std::make_shared<GpuStep>(std::static_pointer_cast<GpuExecutable>(executable), modelled, *memory_,
                                            clock_options(options_).machine);
      return {std::move(executable), std::move(step)};
    } catch (const OutOfMemory&) {  // a real GPU would fail when it runs the step
      memory_->allocator().count_refusal();
      throw;
    }
  }

  void on_submit(ModelStep& step, Submission& submission, const SubmissionInfo& info) override {
    auto& launched = static_cast<GpuStep&>(step);
    if (is_paused() || submission.stream != StreamRole::kCompute || launched.modelled().launches().empty()) return;
    submission.replays = captured_.replays(launched);
    const Staged* const staged = find_staged(submission.staged);
    memory_->run(launched.modelled().memory(),
                 {.pools = captured_.pools(launched), .staged = staged != nullptr ? submission.staged : 0},
                 submission.lines);
    clock_.compute(launched.modelled(), {.reduced = info.reduced,
                                         .replays = submission.replays,
                                         .staged = staged != nullptr ? &staged->inputs : nullptr});
    captured_.count(launched, {submission.name, info.step, info.evaluates});
  }

  void on_stage(uint64_t ticket, const ModelStep& like, std::vector<int64_t> bytes_of_inputs) override {
    const ModelledStep& modelled = static_cast<const GpuStep&>(like).modelled();
    Staged& staged = staged_[ticket % staged_.size()];
    staged.ticket = 0;
    memory_->stage(ticket, modelled.memory(), bytes_of_inputs);
    staged = {ticket, clock_.stage(modelled, std::move(bytes_of_inputs))};
  }
  void on_drop_staged() noexcept override {
    for (Staged& staged : staged_) staged.ticket = 0;
    memory_->drop_staged();
  }

  void on_copy_in(int64_t bytes) override {
    if (!is_paused()) clock_.upload(bytes);
  }
  void on_copy_out(int64_t bytes) override {
    if (!is_paused()) clock_.download(bytes);
  }
  void on_release_temporary() override { memory_->release_step(); }
  void pause() override { ++pauses_; }
  void resume() override { --pauses_; }

  std::optional<int64_t> peak_memory(std::span<const ArrayBytes> arrays, std::span<const ModelStep* const> training,
                                     std::span<const ModelStep* const> evaluation) const override {
    const auto traces = [](std::span<const ModelStep* const> steps) {
      std::vector<const MemoryTrace*> all;
      for (const ModelStep* const step : steps)
        all.push_back(&static_cast<const GpuStep&>(*step).modelled().memory().trace());
      return all;
    };
    MemorySpec spec = memory_->spec();
    if (spec.arrays.empty()) spec.arrays = bytes_of(arrays);
    return forecast_training(arrays, {traces(training), traces(evaluation)}, spec);
  }

 private:
  struct Staged {
    uint64_t ticket = 0;  // 0: not staged
    GpuClock::StagedInputs inputs = {};
  };

  static std::vector<int64_t> bytes_of(std::span<const ArrayBytes> arrays) {
    std::vector<int64_t> bytes;
    for (const ArrayBytes& array : arrays) bytes.push_back(array.bytes);
    return bytes;
  }

  bool is_paused() const { return pauses_ > 0; }
  const Staged* find_staged(uint64_t ticket) const {
    const Staged& staged = staged_[ticket % staged_.size()];
    return ticket != 0 && staged.ticket == ticket ? &staged : nullptr;
  }
  const GpuOptions options_;
  const std::string name_;
  const std::shared_ptr<DeviceMemory> memory_;  // shared, since arrays outlive the device
  int pauses_ = 0;
  GpuClock clock_;
  CapturedGraphs captured_;
  std::array<Staged, kStagedBatches> staged_;
};

}  // namespace

std::unique_ptr<ModelledDevice> make_gpu_device(const GpuOptions& options) {
  auto model = std::make_unique<EmulatedGpuModel>(options);
  return std::make_unique<ModelledDevice>(make_unmodelled_gpu(options), std::move(model));
}

GpuDeviceModel* find_gpu_model(const ModelledDevice& device) {
  return dynamic_cast<GpuDeviceModel*>(&device.model());
}

GpuDeviceModel& model_of_gpu(const ModelledDevice& device) {
  return static_cast<GpuDeviceModel&>(device.model());
}

}  // namespace runner::backends::gpu
