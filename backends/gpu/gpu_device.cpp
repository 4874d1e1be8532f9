#include "backends/gpu/gpu_device.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/cpu/host_buffer.h"
#include "backends/gpu/copies.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/streams.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/worker_pool.h"
#include "schema/error.h"

namespace runner::backends::gpu {
namespace {

// What the launches of a submission use, which lives until they are done.
struct InFlight {
  StagedBatch batch;
  std::shared_ptr<GpuExecutable> executable;
  std::vector<std::shared_ptr<std::byte>> states;
  Ticket ticket = 0;

  void let_go() {
    executable.reset();
    states.clear();
  }
};

// The temporary memory of all executables is one arena, since the compute stream does one after the other.
class EmulatedGpu : public GpuDevice {
 public:
  explicit EmulatedGpu(const GpuOptions& options)
      : options_(options),
        name_(fmt::format("gpu {}", options.index)),
        pool_(options.threads),
        streams_({.name = name_, .own_thread = options.own_thread, .patience = options.patience}) {}

  std::string_view name() const override { return name_; }
  uint64_t launches() const override { return streams_.launches(); }
  bool runs_beside_host() const override { return options_.own_thread; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return wrap(zeroed_memory(bytes), bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return std::make_shared<HostBuffer>(std::move(memory), bytes);
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    RUN_ASSERT(offset + source.size() <= buffer.bytes());
    upload_.set(source.data(), {static_cast<HostBuffer&>(buffer).data() + offset, source.size()});
    streams_.finish(copied_in_, copy(StreamKind::kCopyIn, upload_, copied_in_));
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    RUN_ASSERT(offset + target.size() <= buffer.bytes());
    download_.set(static_cast<const HostBuffer&>(buffer).data() + offset, target);
    streams_.synchronize(copied_out_, copy(StreamKind::kCopyOut, download_, copied_out_));
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<GpuExecutable>(program);
  }

  Ticket submit(Executable& executable, const Arguments& arguments) override {
    auto& ready = static_cast<GpuExecutable&>(executable);
    streams_.finish(computed_, ready.newest);
    reserve(ready.arena_bytes());
    InFlight& slot = in_flight_[computed_.recorded() % in_flight_.size()];
    streams_.finish(computed_, slot.ticket);
    take(slot, ready, arguments);
    launch(ready);
    return slot.ticket = ready.newest = streams_.record(StreamKind::kCompute, computed_);
  }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    const Plan& plan = static_cast<GpuExecutable&>(executable).plan();
    const Output& output = plan.program.outputs()[static_cast<size_t>(index)];
    RUN_ASSERT(output.state < 0 && target.size() == plan.program.type(output.value).bytes());
    const Place& place = plan.outputs[static_cast<size_t>(index)];
    RUN_ASSERT(place.slot == 0);
    download_.set(arena_.data() + place.offset, target);
    streams_.synchronize(copied_out_, copy(StreamKind::kCopyOut, download_, copied_out_));
  }

  void wait(Ticket ticket) override { streams_.synchronize(computed_, ticket); }
  void synchronize() override {
    finish();
    streams_.synchronize();
  }

  // Copies of batches are not among it, as batches on the host are not.
  size_t temporary_bytes() const override { return arena_.bytes(); }
  void release_temporary() override {
    finish();
    arena_ = Arena();
  }

 private:
  void reserve(size_t bytes) {
    if (bytes <= arena_.bytes()) return;
    finish();
    arena_ = {};  // before another is taken: the system may not have room for both
    arena_ = Arena(bytes);
  }

  // The batch goes to the device beside what it computes; the kernels wait for it.
  void take(InFlight& slot, GpuExecutable& ready, const Arguments& arguments) {
    Arguments bound = arguments;
    bound.batch = slot.batch.stage(ready.plan().program, arguments.batch);
    slot.executable = ready.shared_from_this();
    slot.states.clear();
    for (const Buffer* const state : arguments.states)
      slot.states.push_back(static_cast<const HostBuffer*>(state)->memory());
    for (int32_t i = 0; i < slot.batch.launches(); ++i) streams_.launch(StreamKind::kCopyIn, slot.batch, i);
    streams_.wait(StreamKind::kCompute, copied_in_, streams_.record(StreamKind::kCopyIn, copied_in_));
    ready.bind(arena_.data(), bound, pool_);
  }

  void launch(GpuExecutable& ready) {
    for (int32_t i = 0; i < ready.launches(); ++i) {
      streams_.launch(StreamKind::kCompute, ready, i);
      if (options_.launch_blocking) streams_.synchronize();
    }
  }

  // Behind all that is computed; returns what `copied` reaches then.
  uint64_t copy(StreamKind stream, Copy& copy, Event& copied) {
    streams_.wait(stream, computed_, computed_.recorded());
    streams_.launch(stream, copy, 0);
    return streams_.record(stream, copied);
  }

  void finish() {
    streams_.finish();
    for (InFlight& slot : in_flight_) slot.let_go();
  }

  const GpuOptions options_;
  const std::string name_;
  WorkerPool pool_;
  Arena arena_;
  std::array<InFlight, 2> in_flight_;
  Copy upload_{"upload"}, download_{"download"};
  Event computed_{streams_}, copied_in_{streams_}, copied_out_{streams_};
  Streams streams_;  // last: its thread uses all of the above
};

}  // namespace

std::unique_ptr<GpuDevice> make_gpu_device(const GpuOptions& options) {
  return std::make_unique<EmulatedGpu>(options);
}

}  // namespace runner::backends::gpu
