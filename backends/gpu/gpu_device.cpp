#include "backends/gpu/gpu_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/exec/host_execution.h"
#include "backends/gpu/copies.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/staged_batches.h"
#include "backends/gpu/streams.h"
#include "backends/gpu/tf32.h"
#include "backends/runtime/abandoned.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/worker_pool.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

// Resources of a submission, kept alive until its launches are complete.
struct InFlight {
  BatchCopy batch;
  std::shared_ptr<GpuExecutable> executable;
  std::vector<std::shared_ptr<std::byte>> states;
  uint64_t end = 0;  // count of Lane::done when it is complete

  void let_go() {
    executable.reset();
    states.clear();
  }
};

// A stream that accepts submissions. All executables share one arena as temporary memory, since the stream runs one
// submission at a time.
struct Lane {
  Lane(const std::string& device, StreamKind kind_, size_t most_in_flight)
      : kind(kind_), done(std::make_shared<StreamEvent>(device)), in_flight(most_in_flight) {}

  InFlight& next() { return in_flight[done->recorded() % in_flight.size()]; }
  // Count of `done` at which no submission of this Executable is in flight.
  uint64_t end_of(const GpuExecutable& executable) const {
    uint64_t end = 0;
    for (const InFlight& slot : in_flight)
      if (slot.executable.get() == &executable) end = std::max(end, slot.end);
    return end;
  }

  const StreamKind kind;
  const std::shared_ptr<StreamEvent> done;
  Arena arena;
  std::vector<InFlight> in_flight;
};

class EmulatedGpu final : public Device, private DeviceStreams {
 public:
  explicit EmulatedGpu(const GpuOptions& options)
      : options_(options),
        name_(fmt::format("gpu {}", options.index)),
        pool_(options.threads),
        streams_({.name = name_,
                  .own_thread = options.own_thread,
                  .spins = options.spins,
                  .patience = options.patience,
                  .check_others = options.check_others}) {}

  // See Streams.
  bool stop() noexcept { return streams_.stop(); }
  std::string running() const { return streams_.running(); }

  std::string_view name() const override { return "gpu"; }
  bool runs_asynchronously() const override { return options_.own_thread; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return wrap(zeroed_memory(bytes), bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return std::make_shared<HostBuffer>(std::move(memory), bytes);
  }
  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    RUN_ASSERT(offset + source.size() <= buffer.bytes());
    upload_.set(source.data(), {static_cast<HostBuffer&>(buffer).data() + offset, source.size()});
    streams_.finish(*copied_in_, copy(StreamKind::kCopyIn, upload_, *copied_in_));
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    RUN_ASSERT(offset + target.size() <= buffer.bytes());
    download_.set(static_cast<const HostBuffer&>(buffer).data() + offset, target);
    streams_.synchronize(*copied_out_, copy(StreamKind::kCopyOut, download_, *copied_out_));
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<GpuExecutable>(uses_tf32(options_) ? with_tf32_products(program) : program);
  }

  Ticket submit(Executable& executable, const Submission& submission) override {
    auto& ready = static_cast<GpuExecutable&>(executable);
    const bool computes = submission.stream == StreamRole::kCompute;
    StagedBatches::Staged* const staged = batches_.find(submission.staged);
    Lane& lane = computes ? compute_ : communication_;
    streams_.finish(*lane.done, lane.end_of(ready));
    reserve(lane, ready.plan().arena_bytes);
    InFlight& slot = lane.next();
    streams_.finish(*lane.done, slot.end);
    take(slot, ready, submission);
    for (const AwaitedEvent& awaited : submission.after)
      streams_.wait(lane.kind, static_cast<StreamEvent&>(*awaited.event), awaited.count);
    bind(lane, slot, ready, submission, staged);
    launch(lane, ready, submission.signals, submission.replays);
    slot.end = streams_.record(lane.kind, *lane.done);
    if (staged != nullptr) staged->last_use = slot.end;
    return computes ? slot.end : 0;
  }

  DeviceStreams* streams() override { return this; }
  uint64_t stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) override {
    return batches_.stage(static_cast<const GpuExecutable&>(like), inputs);
  }
  bool has_staged(uint64_t ticket) const override { return batches_.has(ticket); }
  void drop_staged() noexcept override { batches_.drop(); }
  std::shared_ptr<backends::Event> make_event() override { return std::make_shared<StreamEvent>(name_); }
  void record(backends::Event& event) override { streams_.record(compute_.kind, static_cast<StreamEvent&>(event)); }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    const Plan& plan = static_cast<GpuExecutable&>(executable).plan();
    const size_t offset = offset_of_output(plan, index, target.size());
    download_.set(compute_.arena.data() + offset, target);
    streams_.synchronize(*copied_out_, copy(StreamKind::kCopyOut, download_, *copied_out_));
  }

  void wait(Ticket ticket) override { streams_.synchronize(*compute_.done, ticket); }
  void synchronize() override {
    finish();
    streams_.synchronize();
  }

  // Copies of batches do not count as temporary, just as batches on the host do not.
  size_t temporary_bytes() const override { return compute_.arena.bytes() + communication_.arena.bytes(); }
  void release_temporary() override {
    finish();
    for (Lane* const lane : {&compute_, &communication_}) lane->arena = Arena();
  }

 private:
  void reserve(Lane& lane, size_t bytes) {
    if (bytes <= lane.arena.bytes()) return;
    streams_.finish(*lane.done, lane.done->recorded());
    lane.arena.grow_to(bytes);
  }

  static void take(InFlight& slot, GpuExecutable& ready, const Submission& submission) {
    slot.executable = std::static_pointer_cast<GpuExecutable>(ready.shared_from_this());
    slot.states.clear();
    for (const Buffer* const state : submission.states)
      slot.states.push_back(static_cast<const HostBuffer*>(state)->memory());
  }

  // The batch is copied concurrently with earlier work of the compute stream; the kernels wait for it.
  void bind(Lane& lane, InFlight& slot, GpuExecutable& ready, const Submission& submission,
            const StagedBatches::Staged* staged) {
    Submission bound = submission;
    bound.batch = batches_.bring(ready, submission.batch, staged, slot.batch, lane.kind);
    ready.bind(lane.arena.data(), bound, pool_);
  }

  // Events are recorded between launches, also those of a captured graph.
  void launch(Lane& lane, GpuExecutable& ready, std::span<const Signal> signals, bool replays) {
    const std::span<const LaunchSchedule::Due> due = ready.due(signals);
    size_t next = 0;
    const auto record_after = [&](int32_t launch) {
      for (; next < due.size() && due[next].launch <= launch; ++next)
        streams_.record(lane.kind, static_cast<StreamEvent&>(*signals[static_cast<size_t>(due[next].bucket)].event));
    };
    record_after(kBeforeAll);
    for (int32_t i = 0; i < ready.launches();) {
      int32_t end = replays ? ready.launches() : i + 1;
      if (next < due.size()) end = std::min(end, due[next].launch + 1);
      streams_.launch_all(lane.kind, ready, i, end);
      if (options_.launch_blocking) streams_.synchronize();
      record_after(end - 1);
      i = end;
    }
  }

  // Copies after all computed work. Returns the count of `copied` when the copy is complete.
  uint64_t copy(StreamKind stream, Copy& copy, StreamEvent& copied) {
    streams_.wait(stream, *compute_.done, compute_.done->recorded());
    streams_.launch(stream, copy, 0);
    return streams_.record(stream, copied);
  }

  void finish() {
    streams_.finish();
    for (Lane* const lane : {&compute_, &communication_})
      for (InFlight& slot : lane->in_flight) slot.let_go();
  }

  const GpuOptions options_;
  const std::string name_;
  WorkerPool pool_;
  Copy upload_{"upload"}, download_{"download"};
  Lane compute_{name_, StreamKind::kCompute, 2};
  Lane communication_{name_, StreamKind::kCommunication, 16};
  const std::shared_ptr<StreamEvent> copied_in_ = std::make_shared<StreamEvent>(name_),
                                     copied_out_ = std::make_shared<StreamEvent>(name_);
  StagedBatches batches_{name_, streams_, *compute_.done};
  Streams streams_;  // last, since its thread uses all of the above
};

}  // namespace

std::shared_ptr<Device> make_unmodelled_gpu(const GpuOptions& options) {
  return {new EmulatedGpu(options), [](EmulatedGpu* gpu) {
            std::shared_ptr<EmulatedGpu> device(gpu);
            if (!device->stop()) abandon(device, device->running());
          }};
}

}  // namespace runner::backends::gpu
