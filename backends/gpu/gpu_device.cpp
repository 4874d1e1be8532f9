#include "backends/gpu/gpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/account.h"
#include "backends/cpu/host_buffer.h"
#include "backends/gpu/captured_graphs.h"
#include "backends/gpu/copies.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/gpu_clock.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/last_write.h"
#include "backends/gpu/memory_forecast.h"
#include "backends/gpu/staged_batches.h"
#include "backends/gpu/streams.h"
#include "backends/gpu/tf32.h"
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

// An array that counts as allocated in the modelled memory while it exists.
class CountedBuffer final : public HostBuffer {
 public:
  CountedBuffer(std::shared_ptr<std::byte> memory, size_t bytes, std::shared_ptr<DeviceMemory> account, BlockId block)
      : HostBuffer(std::move(memory), bytes), account_(std::move(account)), block_(block) {}
  ~CountedBuffer() override { account_->free(block_); }
  CountedBuffer(const CountedBuffer&) = delete;
  CountedBuffer& operator=(const CountedBuffer&) = delete;

 private:
  const std::shared_ptr<DeviceMemory> account_;
  const BlockId block_;
};

// A stream that accepts submissions. All executables share one arena as temporary memory, since the stream runs one
// submission at a time.
struct Lane {
  Lane(const std::string& device, StreamKind kind_, size_t most_in_flight)
      : kind(kind_), done(std::make_shared<Event>(device)), in_flight(most_in_flight) {}

  InFlight& next() { return in_flight[done->recorded() % in_flight.size()]; }
  // Count of `done` at which no submission of this Executable is in flight.
  uint64_t end_of(const GpuExecutable& executable) const {
    uint64_t end = 0;
    for (const InFlight& slot : in_flight)
      if (slot.executable.get() == &executable) end = std::max(end, slot.end);
    return end;
  }

  const StreamKind kind;
  const std::shared_ptr<Event> done;
  Arena arena;
  std::vector<InFlight> in_flight;
};

class EmulatedGpu final : public GpuDevice, private DeviceStreams, private Account {
 public:
  explicit EmulatedGpu(const GpuOptions& options)
      : options_(options),
        name_(fmt::format("gpu {}", options.index)),
        memory_(std::make_shared<DeviceMemory>(
            MemorySpec{.device = name_,
                       .limit = options.memory.value_or(row_of(options.model).capacity_bytes),
                       .captures = options.capture})),
        clock_({.device = name_, .machine = machine(), .launch_blocking = options.launch_blocking}),
        captured_(name_, options.capture),
        pool_(options.threads),
        streams_({.name = name_,
                  .own_thread = options.own_thread,
                  .spins = options.spins,
                  .patience = options.patience,
                  .check_others = options.check_others}) {}

  std::string_view name() const override { return "gpu"; }
  const GpuModelRow& model() const override { return row_of(options_.model); }
  const MemoryStatistics& memory_statistics() const override { return memory_->allocator().statistics(); }
  PredictedTime take_predicted_time() override { return clock_.take(); }
  std::optional<CaptureCounters> captures() const override { return captured_.counters(); }
  std::vector<std::string> take_warnings() override { return captured_.take_warnings(); }
  bool runs_beside_host() const override { return options_.own_thread; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return allocate_array(bytes, "an array"); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return std::make_shared<HostBuffer>(std::move(memory), bytes);
  }
  std::shared_ptr<Buffer> allocate_array(size_t bytes, std::string_view name) override {
    return counted(bytes, name, [bytes] { return zeroed_memory(bytes); });
  }
  std::shared_ptr<Buffer> wrap_array(std::shared_ptr<std::byte> memory, size_t bytes, std::string_view name) override {
    return counted(bytes, name, [&] { return std::move(memory); });
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    RUN_ASSERT(offset + source.size() <= buffer.bytes());
    if (accounts()) clock_.upload(static_cast<int64_t>(source.size()));
    upload_.set(source.data(), {static_cast<HostBuffer&>(buffer).data() + offset, source.size()});
    streams_.finish(*copied_in_, copy(StreamKind::kCopyIn, upload_, *copied_in_));
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    RUN_ASSERT(offset + target.size() <= buffer.bytes());
    if (accounts()) clock_.download(static_cast<int64_t>(target.size()));
    download_.set(static_cast<const HostBuffer&>(buffer).data() + offset, target);
    streams_.synchronize(*copied_out_, copy(StreamKind::kCopyOut, download_, *copied_out_));
  }

  std::shared_ptr<Executable> compile(const Program& program) override { return compile_graph(program, program); }
  // Rounding operands to TF32 costs no time on a GPU, so `graph` is not rewritten.
  std::shared_ptr<Executable> compile_graph(const Program& program, const Program& graph) override {
    const Program nothing;
    const Program& accounted = accounts() ? graph : nothing;
    try {
      if (options_.allow_tf32 && model().product_flops.tf32 > 0)
        return std::make_shared<GpuExecutable>(with_tf32_products(program), accounted, *memory_, machine());
      return std::make_shared<GpuExecutable>(program, accounted, *memory_, machine());
    } catch (const OutOfMemory&) {  // a real GPU would fail when it runs the step
      memory_->allocator().count_refusal();
      throw;
    }
  }
  void begin_unaccounted() override { ++unaccounted_; }
  void end_unaccounted() override { --unaccounted_; }
  bool accounts_alone() const override { return true; }
  int64_t memory_for(std::span<const ArrayBytes> arrays, std::span<const std::shared_ptr<Executable>> training,
                     std::span<const std::shared_ptr<Executable>> evaluation) const override {
    const auto traces = [](std::span<const std::shared_ptr<Executable>> steps) {
      std::vector<const MemoryTrace*> all;
      for (const auto& step : steps) all.push_back(&static_cast<GpuExecutable&>(*step).account().memory().trace());
      return all;
    };
    MemorySpec spec = memory_->spec();
    if (spec.arrays.empty()) spec.arrays = bytes_of(arrays);
    return forecast_training({arrays, traces(training), traces(evaluation)}, spec);
  }
  void expect_arrays(std::span<const ArrayBytes> arrays, std::span<const ArrayBytes> for_parts) override {
    memory_->expect_arrays(bytes_of(arrays), bytes_of(for_parts));
  }
  std::optional<int64_t> memory_limit() const override { return memory_->allocator().limit(); }

  Ticket submit(Executable& executable, const Arguments& arguments) override {
    auto& ready = static_cast<GpuExecutable&>(executable);
    const bool computes = arguments.stream == StreamRole::kCompute;
    const bool accounted = computes && accounts() && !ready.account().launches().empty();
    const bool replays = accounted && captured_.replays(ready);
    StagedBatches::Staged* const staged = batches_.find(arguments.staged);
    // All-reduces are modelled together with the step that computes the gradients.
    if (accounted) {
      memory_->run(ready.account().memory(),
                   {.pools = captured_.pools(ready), .staged = staged != nullptr ? arguments.staged : 0},
                   arguments.lines);
      clock_.compute(ready.account(), {.reduced = arguments.reduced,
                                       .replays = replays,
                                       .staged = staged != nullptr ? &staged->predicted : nullptr});
      captured_.count(ready, arguments);
    }
    Lane& lane = computes ? compute_ : communication_;
    streams_.finish(*lane.done, lane.end_of(ready));
    reserve(lane, ready.plan().arena_bytes);
    InFlight& slot = lane.next();
    streams_.finish(*lane.done, slot.end);
    take(slot, ready, arguments);
    for (const EventCount& awaited : arguments.after)
      streams_.wait(lane.kind, static_cast<Event&>(*awaited.event), awaited.count);
    bind(lane, slot, ready, arguments, staged);
    launch(lane, ready, arguments.signals, replays);
    slot.end = streams_.record(lane.kind, *lane.done);
    if (staged != nullptr) staged->last_use = slot.end;
    return computes ? slot.end : 0;
  }

  Account* account() override { return this; }
  DeviceStreams* streams() override { return this; }
  uint64_t stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) override {
    return batches_.stage(static_cast<const GpuExecutable&>(like), inputs);
  }
  void drop_staged() noexcept override { batches_.drop(); }
  std::shared_ptr<backends::Event> make_event() override { return std::make_shared<Event>(name_); }
  void record(backends::Event& event) override { streams_.record(compute_.kind, static_cast<Event&>(event)); }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    const Plan& plan = static_cast<GpuExecutable&>(executable).plan();
    const size_t offset = offset_of_output(plan, index, target.size());
    if (accounts()) clock_.download(static_cast<int64_t>(target.size()));
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
    memory_->release_step();
    for (Lane* const lane : {&compute_, &communication_}) lane->arena = Arena();
  }

 private:
  static std::vector<int64_t> bytes_of(std::span<const ArrayBytes> arrays) {
    std::vector<int64_t> bytes;
    for (const ArrayBytes& array : arrays) bytes.push_back(array.bytes);
    return bytes;
  }

  bool accounts() const { return unaccounted_ == 0; }

  GpuMachine machine() const {
    return {.model = options_.model,
            .gpus = options_.gpus,
            .allow_tf32 = options_.allow_tf32,
            .captures = options_.capture};
  }

  // Counts the array before the host allocates it.
  template <class Take>
  std::shared_ptr<Buffer> counted(size_t bytes, std::string_view name, const Take& take) {
    if (bytes == 0) return wrap(take(), bytes);
    const BlockId block =
        memory_->allocate(static_cast<int64_t>(bytes), kStreamPools.compute, memory_->owners().intern(name));
    try {
      return std::make_shared<CountedBuffer>(take(), bytes, memory_, block);
    } catch (...) {
      memory_->free(block);
      throw;
    }
  }

  void reserve(Lane& lane, size_t bytes) {
    if (bytes <= lane.arena.bytes()) return;
    streams_.finish(*lane.done, lane.done->recorded());
    lane.arena = {};  // freed first: the system may not have room for both
    lane.arena = Arena(bytes);
  }

  static void take(InFlight& slot, GpuExecutable& ready, const Arguments& arguments) {
    slot.executable = ready.shared_from_this();
    slot.states.clear();
    for (const Buffer* const state : arguments.states)
      slot.states.push_back(static_cast<const HostBuffer*>(state)->memory());
  }

  // The batch is copied concurrently with earlier work of the compute stream; the kernels wait for it.
  void bind(Lane& lane, InFlight& slot, GpuExecutable& ready, const Arguments& arguments,
            const StagedBatches::Staged* staged) {
    Arguments bound = arguments;
    bound.batch = batches_.bring(ready, arguments.batch, staged, slot.batch, lane.kind);
    ready.bind(lane.arena.data(), bound, pool_);
  }

  // Events are recorded between launches, also those of a captured graph.
  void launch(Lane& lane, GpuExecutable& ready, std::span<const Signal> signals, bool replays) {
    const std::span<const GpuExecutable::DueSignal> due = ready.due(signals);
    size_t next = 0;
    const auto record_behind = [&](int32_t launch) {
      for (; next < due.size() && due[next].launch <= launch; ++next)
        streams_.record(lane.kind, static_cast<Event&>(*signals[due[next].signal].event));
    };
    record_behind(kBeforeAll);
    for (int32_t i = 0; i < ready.launches();) {
      int32_t end = replays ? ready.launches() : i + 1;
      if (next < due.size()) end = std::min(end, due[next].launch + 1);
      streams_.launch_all(lane.kind, ready, i, end);
      if (options_.launch_blocking) streams_.synchronize();
      record_behind(end - 1);
      i = end;
    }
  }

  // Copies after all computed work. Returns the count of `copied` when the copy is complete.
  uint64_t copy(StreamKind stream, Copy& copy, Event& copied) {
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
  const std::shared_ptr<DeviceMemory> memory_;  // shared, since arrays outlive the device
  int unaccounted_ = 0;
  GpuClock clock_;
  CapturedGraphs captured_;
  WorkerPool pool_;
  Copy upload_{"upload"}, download_{"download"};
  Lane compute_{name_, StreamKind::kCompute, 2};
  Lane communication_{name_, StreamKind::kCommunication, 16};
  const std::shared_ptr<Event> copied_in_ = std::make_shared<Event>(name_),
                               copied_out_ = std::make_shared<Event>(name_);
  StagedBatches batches_{name_, streams_, *memory_, clock_, *compute_.done};
  Streams streams_;  // last, since its thread uses all of the above
};

}  // namespace

std::unique_ptr<GpuDevice> make_gpu_device(const GpuOptions& options) {
  return std::make_unique<EmulatedGpu>(options);
}

}  // namespace runner::backends::gpu
