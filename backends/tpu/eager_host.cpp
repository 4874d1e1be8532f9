#include "backends/tpu/eager_host.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/exec/memory_plan.h"
#include "backends/exec/plan_cache.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/views.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/op_split.h"
#include "schema/base/error.h"

namespace runner::backends::tpu {
namespace {

// Where a value is stored.
struct Location {
  enum Kind : uint8_t { kState, kBatch, kScalar, kBlock } kind = kBlock;
  size_t index = 0;  // within its kind
  bool operator==(const Location&) const = default;
};

// An operation with the values it reads and writes.
struct Operation {
  std::shared_ptr<Executable> executable;
  std::vector<Location> states;  // locations of kind kState and kBlock
  std::vector<size_t> batch, scalars;
  bool is_collective_op = false;  // exchanges with the other ranks
  bool writes_state = false;
};

class EagerExecutable : public Executable {
 public:
  std::vector<Operation> operations;  // one per entry of `times`, followed by copies to states
  std::vector<OpTimes> times;
  std::vector<ArenaBlock> blocks;  // memory of results
  size_t block_bytes = 0;
  std::vector<Location> outputs;  // by output of the Program
  SourceLines lines;
  std::vector<std::shared_ptr<Buffer>> bound;  // buffers over the memory of `blocks`, by block
  const std::byte* bound_to = nullptr;

  size_t arena_bytes() const override {
    size_t most = 0;
    for (const Operation& operation : operations) most = std::max(most, operation.executable->arena_bytes());
    return block_bytes + most;
  }
  int64_t flops() const override { return sum(&Executable::flops); }
  int64_t bytes() const override { return sum(&Executable::bytes); }

 private:
  int64_t sum(int64_t (Executable::*figure)() const) const {
    int64_t all = 0;
    for (const Operation& operation : operations) all += (operation.executable.get()->*figure)();
    return all;
  }
};

// Executables of operations, by their Program.
struct CompiledOperation {
  std::shared_ptr<Executable> executable;
  int64_t compile_ns;
};
using OperationCache = PlanCache<CompiledOperation>;

// By value: whether its readers read it in place. True for views, detached values, constants and broadcasts that are
// not outputs.
std::vector<char> read_in_place(const Program& program) {
  std::vector<char> is_part = parts_of_readers(program);
  for (ValueId id = 0; id < program.size(); ++id)
    if (is_view(program, id) || program.node(id).op == Op::kDetach) is_part[static_cast<size_t>(id)] = 1;
  for (const Output& output : program.outputs()) is_part[static_cast<size_t>(output.value)] = 0;
  return is_part;
}

class Maker {
 public:
  // `program`: legalised and without dead nodes.
  Maker(const Program& program, Device& host, OperationCache& cache)
      : program_(program),
        host_(host),
        cache_(cache),
        ops_(split_into_ops(program, read_in_place(program), TensorInputs::kAsDeclared)),
        end_(static_cast<int>(ops_.size())),
        locations_(static_cast<size_t>(program.size())),
        op_of_(locations_.size(), -1),
        last_read_(locations_.size(), -1) {}

  std::shared_ptr<EagerExecutable> run() {
    find_reads();
    place_inputs();
    place_in_states();
    place_in_blocks();
    for (SplitOp& op : ops_) add(op);
    for (const Output& output : program_.outputs()) {
      if (output.state >= 0 && location(output.value) != location(state_of(output))) add_copy(output);
      made_->outputs.push_back(location(output.value));
    }
    made_->lines = program_.lines();
    return std::move(made_);
  }

 private:
  Location& location(ValueId id) { return locations_[static_cast<size_t>(id)]; }
  int& last_read(ValueId id) { return last_read_[static_cast<size_t>(id)]; }
  int op_of(ValueId id) const { return op_of_[static_cast<size_t>(id)]; }

  void find_reads() {
    for (int i = 0; i < end_; ++i) {
      const SplitOp& op = ops_[static_cast<size_t>(i)];
      op_of_[static_cast<size_t>(op.node)] = i;
      for (const ValueId operand : op.operands) last_read(operand) = i;
    }
  }

  void place_inputs() {
    size_t count[3] = {};
    for (const Input& input : program_.inputs()) {
      const auto kind = static_cast<Location::Kind>(input.kind);
      location(input.value) = {kind, count[kind]++};
    }
  }

  // Lets a new value overwrite the old contents of its state, if nothing reads the old contents later and the value is
  // no other output.
  void place_in_states() {
    const auto is_single_output = [&](ValueId id) {
      return std::ranges::count(program_.outputs(), id, &Output::value) == 1;
    };
    for (const Output& output : program_.outputs())
      if (output.state >= 0 && is_single_output(output.value) && last_read(state_of(output)) <= op_of(output.value))
        location(output.value) = location(state_of(output));
  }

  void place_in_blocks() {
    for (const Output& output : program_.outputs()) last_read(output.value) = end_;
    for (int i = 0; i < end_; ++i) {
      const ValueId id = ops_[static_cast<size_t>(i)].node;
      if (location(id).kind != Location::kBlock) continue;
      location(id).index = made_->blocks.size();
      made_->blocks.push_back({program_.type(id).bytes(), i, std::max(i, last_read(id)), 0});
    }
    made_->block_bytes = assign_offsets(made_->blocks);
  }

  ValueId state_of(const Output& output) const { return program_.inputs()[static_cast<size_t>(output.state)].value; }

  void add(SplitOp& op) {
    const ValueId result = op.program.size() - 1;
    const int64_t compile_ns = add_operation(op.program, op.operands, result, location(op.node));
    const Node& node = program_.node(op.node);
    made_->operations.back().is_collective_op = is_collective(node.op);
    made_->times.push_back({.op = node.op, .origin = node.origin, .compile_ns = compile_ns});
  }

  void add_copy(const Output& output) {
    Program program;
    const ValueId from = program.input(InputKind::kState, "tensor", program_.type(output.value));
    add_operation(program, {output.value}, from, location(state_of(output)));
  }

  // Adds an operation that writes `result` of `program` to `target`, which may be the location of an operand. Returns
  // the compile time of its kind.
  int64_t add_operation(Program& program, const std::vector<ValueId>& operands, ValueId result,
                        const Location& target) {
    Operation operation;
    int32_t to = -1;  // index of the input that receives the result
    for (size_t i = 0; i < operands.size(); ++i) {
      const Location& from = location(operands[i]);
      bind(operation, from);
      if (from == target) to = static_cast<int32_t>(i);
    }
    if (to < 0) {
      to = static_cast<int32_t>(operands.size());
      bind(operation, target);
      program.input(InputKind::kState, "result", program.type(result));
    }
    program.output("result", result, to);
    const CompiledOperation& compiled = cache_.find_or_make(program, {}, [&] {
      const int64_t begin = monotonic_ns();
      std::shared_ptr<Executable> made = host_.compile(program);
      return CompiledOperation{std::move(made), monotonic_ns() - begin};
    });
    operation.executable = compiled.executable;
    operation.writes_state = target.kind == Location::kState;
    made_->operations.push_back(std::move(operation));
    return compiled.compile_ns;
  }

  static void bind(Operation& operation, const Location& location) {
    if (location.kind == Location::kBatch) {
      operation.batch.push_back(location.index);
    } else if (location.kind == Location::kScalar) {
      operation.scalars.push_back(location.index);
    } else {
      operation.states.push_back(location);
    }
  }

  const Program& program_;
  Device& host_;
  OperationCache& cache_;
  std::vector<SplitOp> ops_;
  const int end_;  // index after the last operation
  std::vector<Location> locations_;
  std::vector<int> op_of_, last_read_;
  std::shared_ptr<EagerExecutable> made_ = std::make_shared<EagerExecutable>();
};

class EagerHost : public Device {
 public:
  explicit EagerHost(std::unique_ptr<Device> host) : host_(std::move(host)) {}

  std::string_view name() const override { return host_->name(); }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return host_->allocate(bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return host_->wrap(std::move(memory), bytes);
  }
  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    host_->write(buffer, offset, source);
  }
  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    host_->read(buffer, offset, target);
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    const Program legal = legalise(dce(program));
    return Maker(legal, *host_, cache_).run();
  }

  Ticket submit(Executable& executable, const Submission& submission) override {
    auto& ready = static_cast<EagerExecutable&>(executable);
    has_written_states_ = false;
    std::optional<ScopedSpan> span;
    if (!submission.name.empty())
      span.emplace(submission.span, submission.name, SpanWork{.bytes = ready.bytes(), .flops = ready.flops()});
    bind(ready);
    for (OpTimes& times : ready.times) times.has_run = false;
    for (size_t i = 0; i < ready.operations.size(); ++i) {
      if (i >= ready.times.size()) {
        run(ready, ready.operations[i], submission, {});
        continue;
      }
      OpTimes& times = ready.times[i];
      const SourceLines& lines =
          submission.lines && submission.lines->has(times.origin) ? *submission.lines : ready.lines;
      const int64_t begin = monotonic_ns();
      run(ready, ready.operations[i], submission, lines.at(times.origin));
      times.run_ns = monotonic_ns() - begin;
      times.has_run = true;
    }
    return ++ticket_;
  }

  bool has_written_states() const override { return has_written_states_; }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    auto& ready = static_cast<EagerExecutable&>(executable);
    const Location& location = ready.outputs[static_cast<size_t>(index)];
    RUN_ASSERT(location.kind == Location::kBlock && ready.bound_to == blocks_.data());
    host_->read(*ready.bound[location.index], 0, target);
  }

  void wait(Ticket) override {}
  void synchronize() override {}

  std::optional<int64_t> memory_limit() const override { return host_->memory_limit(); }
  size_t temporary_bytes() const override { return blocks_.bytes() + host_->temporary_bytes(); }
  void release_temporary() override {
    blocks_ = Arena();
    host_->release_temporary();
  }

 private:
  // All executables share one arena, since one runs at a time.
  void bind(EagerExecutable& ready) {
    blocks_.grow_to(ready.block_bytes);
    if (ready.bound_to == blocks_.data() && ready.bound.size() == ready.blocks.size()) return;
    ready.bound_to = blocks_.data();
    ready.bound.clear();
    for (const ArenaBlock& block : ready.blocks)
      ready.bound.push_back(host_->wrap({std::shared_ptr<void>(), blocks_.data() + block.offset}, block.bytes));
  }

  void run(const EagerExecutable& ready, const Operation& operation, const Submission& submission,
           const SourceMark& line) {
    states_.clear();
    for (const Location& location : operation.states)
      states_.push_back(location.kind == Location::kState ? submission.states[location.index]
                                                          : ready.bound[location.index].get());
    batch_.clear();
    for (const size_t index : operation.batch) batch_.push_back(submission.batch[index]);
    scalars_.clear();
    for (const size_t index : operation.scalars) scalars_.push_back(submission.scalars[index]);
    Submission own{.states = states_, .batch = batch_, .scalars = scalars_, .waits = true};
    SourceLines lines;
    if (operation.is_collective_op) {
      lines.add(lines.intern(line));
      lines.add(lines.intern(line));
      own.lines = &lines;
      own.exchange = submission.exchange;
    }
    has_written_states_ |= operation.writes_state;
    try {
      host_->submit(*operation.executable, own);
    } catch (Error& error) {
      // The cached executable may have the line of another recording.
      if (!operation.is_collective_op) error.relocate(line);
      throw;
    }
  }

  const std::unique_ptr<Device> host_;
  OperationCache cache_;
  Arena blocks_;  // memory of results
  Ticket ticket_ = 0;
  bool has_written_states_ = false;
  // Submission of the running operation.
  std::vector<Buffer*> states_;
  std::vector<const std::byte*> batch_;
  std::vector<double> scalars_;
};

}  // namespace

std::unique_ptr<Device> make_eager_host(std::unique_ptr<Device> host) {
  return std::make_unique<EagerHost>(std::move(host));
}

std::span<const OpTimes> op_times(const Executable& executable) {
  return static_cast<const EagerExecutable&>(executable).times;
}

}  // namespace runner::backends::tpu
