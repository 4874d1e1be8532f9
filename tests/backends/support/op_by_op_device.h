// A second device for tests: launches the nodes of a Program one by one, as recorded, on a thread of its own.
//
// It represents an asynchronous device. Every call except those that wait queues work and returns. An error voids what
// is queued after it and is thrown, with the source line of its op, by the next call that waits. There are no passes,
// no fusion and no plan; each value has memory of its own, so the device is also the reference for plans.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "backends/exec/backend.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/worker_pool.h"
#include "backends/tensor/alignment.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"
#include "tests/backends/support/node_kernel.h"

namespace runner::backends::testing {

// Runs tasks in order on one thread.
class TaskQueue {
 public:
  TaskQueue() : thread_([this] { work(); }) {}
  ~TaskQueue() {
    push(nullptr);
    thread_.join();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // An empty task ends the thread.
  void push(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++pushed_;
    if (tasks_.size() == 1) work_.notify_one();
  }
  uint64_t pushed() const { return pushed_; }

  // Returns when the first `count` tasks are done. Throws the first error, once, after the later tasks are skipped.
  void wait(uint64_t count) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return (done_ >= count && !error_) || done_ == pushed_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      if (!task) return;
      if (!error_) {
        lock.unlock();
        const std::exception_ptr error = run(task);
        lock.lock();
        error_ = error;
      }
      ++done_;
      if (tasks_.empty()) idle_.notify_all();
    }
  }

  static std::exception_ptr run(const std::function<void()>& task) {
    try {
      task();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<std::function<void()>> tasks_;
  uint64_t pushed_ = 0, done_ = 0;
  std::exception_ptr error_;
  std::thread thread_;
};

class OpByOpDevice : public Device {
 public:
  explicit OpByOpDevice(KernelSource kernels = kFastKernels) : kernels_(kernels), pool_(1) {}

  std::string_view name() const override { return "op by op"; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override {
    auto arena = std::make_shared<Arena>(bytes);
    return wrap({arena, arena->data()}, bytes);
  }

  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return std::make_shared<Memory>(std::move(memory), bytes);
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    auto& memory = static_cast<Memory&>(buffer);
    queue_.push([to = memory.data, offset, copy = std::vector(source.begin(), source.end())] {
      std::copy(copy.begin(), copy.end(), to.get() + offset);
    });
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    synchronize();
    const std::byte* from = static_cast<const Memory&>(buffer).data.get() + offset;
    std::copy(from, from + target.size(), target.data());
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<Launches>(program, kernels_);
  }

  Ticket submit(Executable& executable, const Submission& submission) override {
    const auto launches = std::static_pointer_cast<Launches>(executable.shared_from_this());
    bind(launches, submission);
    for (const Launches::Step& step : launches->steps)
      queue_.push([this, launches, &step, lines = submission.lines, exchange = submission.exchange] {
        launch(*launches, step, lines, exchange);
      });
    // Results are first copied aside, since a state may receive what another one contained.
    for (size_t i = 0; i < launches->program.outputs().size(); ++i)
      queue_.push([launches, i] { launches->save_output(i); });
    for (size_t i = 0; i < launches->program.outputs().size(); ++i)
      if (launches->program.outputs()[i].state >= 0) queue_.push([launches, i] { launches->update(i); });
    finished_at_.push_back(queue_.pushed());
    return finished_at_.size();
  }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    synchronize();
    const auto& launches = static_cast<Launches&>(executable);
    const auto at = static_cast<size_t>(index);
    RUN_ASSERT(launches.program.outputs()[at].state < 0);
    const std::byte* from = launches.arena.data() + launches.leaving[at];
    std::copy(from, from + target.size(), target.data());
  }

  void wait(Ticket ticket) override { queue_.wait(finished_at_[ticket - 1]); }
  void synchronize() override { queue_.wait(queue_.pushed()); }

  // Each executable has its own memory.
  size_t temporary_bytes() const override { return 0; }
  void release_temporary() override {}

 private:
  struct Memory : Buffer {
    Memory(std::shared_ptr<std::byte> memory, size_t bytes) : data(std::move(memory)), size(bytes) {}
    size_t bytes() const override { return size; }
    const std::shared_ptr<std::byte> data;  // shared with queued work that uses it
    const size_t size;
  };

  // A Program with a kernel per node and memory for each value, kernel and output.
  struct Launches : Executable {
    struct Step {
      ValueId node;
      Kernel kernel;
      size_t scratch;  // offset into the arena
    };

    Launches(const Program& recorded, const KernelSource& kernels) : program(recorded) {
      std::vector<size_t> offsets;
      for (ValueId id = 0; id < program.size(); ++id) {
        const Op op = program.node(id).op;
        offsets.push_back(take(op == Op::kInput ? 0 : program.type(id).bytes()));
        if (op == Op::kInput || op == Op::kConstant) continue;
        Kernel kernel = kernel_of_node(program, id, kernels);
        const size_t scratch = take(kernel.scratch_bytes);
        steps.push_back({id, std::move(kernel), scratch});
      }
      for (const Output& output : program.outputs()) leaving.push_back(take(program.type(output.value).bytes()));
      arena = Arena(size);
      for (const size_t offset : offsets) places.push_back(arena.data() + offset);
      for (ValueId id = 0; id < program.size(); ++id)
        if (program.node(id).op == Op::kConstant) fill(id);
    }

    size_t take(size_t bytes) {
      const size_t offset = size;
      size += aligned(bytes);
      return offset;
    }

    void fill(ValueId id) {
      const DType dtype = program.type(id).dtype;
      for (size_t at = 0; at < program.type(id).bytes(); at += size_of(dtype))
        store_element(dtype, program.constant_value(id), place(id) + at);
    }

    std::byte* place(ValueId id) const { return places[static_cast<size_t>(id)]; }

    void save_output(size_t output) {
      const ValueId id = program.outputs()[output].value;
      std::copy(place(id), place(id) + program.type(id).bytes(), arena.data() + leaving[output]);
    }
    void update(size_t output) {
      const Output& from = program.outputs()[output];
      const std::byte* data = arena.data() + leaving[output];
      std::copy(data, data + program.type(from.value).bytes(),
                place(program.inputs()[static_cast<size_t>(from.state)].value));
    }

    size_t arena_bytes() const override { return size; }
    int64_t flops() const override { return 0; }
    int64_t bytes() const override { return 0; }

    Program program;
    Arena arena;
    size_t size = 0;
    std::vector<std::byte*> places;  // by value
    std::vector<size_t> leaving;     // arena offset, by output
    std::vector<Step> steps;
  };

  // Sets the pointers to the inputs when the queue reaches the submission; earlier submissions still use theirs.
  void bind(const std::shared_ptr<Launches>& launches, const Submission& submission) {
    size_t state = 0, batch = 0, scalar = 0;
    std::vector<std::shared_ptr<std::byte>> alive;
    std::vector<std::pair<ValueId, const std::byte*>> places;
    for (const Input& input : launches->program.inputs()) {
      if (input.kind == InputKind::kState) {
        alive.push_back(static_cast<Memory*>(submission.states[state++])->data);
        places.emplace_back(input.value, alive.back().get());
      } else if (input.kind == InputKind::kBatch) {
        places.emplace_back(input.value, submission.batch[batch++]);
      } else {
        const DType dtype = launches->program.type(input.value).dtype;
        auto arena = std::make_shared<Arena>(sizeof(int64_t));
        alive.emplace_back(arena, arena->data());
        store_element(dtype, submission.scalars[scalar++], alive.back().get());
        places.emplace_back(input.value, alive.back().get());
      }
    }
    queue_.push([this, launches, places = std::move(places), alive = std::move(alive)]() mutable {
      bound_ = std::move(alive);
      for (const auto& [id, place] : places) launches->places[static_cast<size_t>(id)] = const_cast<std::byte*>(place);
    });
  }

  void launch(Launches& launches, const Launches::Step& step, const SourceLines* lines, Exchange* exchange) {
    const Origin origin = launches.program.node(step.node).origin;
    const SourceMark& line = (lines && lines->has(origin) ? *lines : launches.program.lines()).at(origin);
    std::vector<std::byte*> operands;
    for (const ValueId operand : launches.program.operands(step.node)) operands.push_back(launches.place(operand));
    std::byte* results[] = {launches.place(step.node)};
    try {
      step.kernel.run(step.kernel.params.get(), {.operands = operands,
                                                 .results = results,
                                                 .scratch = launches.arena.data() + step.scratch,
                                                 .pool = pool_,
                                                 .exchange = exchange,
                                                 .line = &line});
    } catch (const Error& error) {
      if (error.where().known()) throw;
      throw Error(error.kind(), error.message(), line);
    }
  }

  const KernelSource kernels_;
  WorkerPool pool_;
  std::vector<uint64_t> finished_at_;              // number of tasks before each ticket
  std::vector<std::shared_ptr<std::byte>> bound_;  // buffers read by the running submission
  TaskQueue queue_;                                // last: its thread ends first
};

}  // namespace runner::backends::testing
