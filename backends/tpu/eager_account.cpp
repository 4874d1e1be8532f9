#include "backends/tpu/eager_account.h"

#include <algorithm>

#include "backends/runtime/spans.h"
#include "backends/tpu/op_cause.h"
#include "backends/tpu/tensor_graph.h"

namespace runner::backends::tpu {

void EagerAccount::begin(const GraphIdentity& graph, std::span<const double> scalars, const StateTensors& state_tensors,
                         Seen& seen, std::span<const OpTimes> host, const Run& run) {
  const BakedNumbers numbers = baked(scalars);
  EagerStep& step = seen.find_or_make({numbers, graph.signature, graph.absent}, [&] {
    EagerStep made = eager_step(graph, numbers, state_tensors, hardware_);
    match(made, host);
    return made;
  });
  running_.clear();
  std::map<Key, int64_t> have_run = run.reads ? have_run_ : std::exchange(have_run_, {});
  for (EagerOp& op : step.ops) {
    if (!have_run.empty())
      if (const auto before = have_run.find(key_of(op)); before != have_run.end() && before->second > 0) {
        --before->second;
        continue;
      }
    Graph& of_op = graph_of(op, run, host);
    ++of_op.executions;
    count(of_op.work, metrics_);
    metrics_.add(Metric::kTensorsGraphSize, of_op.size.nodes);
    metrics_.add(Metric::kDeviceLockWait, 0);
    metrics_.count(Counter::kExecuteComputation);
    if (run.reads) ++have_run_[key_of(op)];
    if (run.step > 0) figures_.seconds += of_op.prediction.least_seconds;
    running_.push_back(&op);
  }
  if (run.step > 0) figures_.operations += std::ssize(running_);
  if (run.reads) return;
  for (const int64_t bytes : step.uploads) metrics_.add(Metric::kOutboundData, bytes);
  if (run.step > 0) figures_.traced_seconds += run.traced_seconds;
}

void EagerAccount::end(std::span<const OpTimes> host) {
  const int64_t now = monotonic_ns();
  for (const EagerOp* const op : running_)
    metrics_.add(Metric::kEagerOpExecuteTime, ns_of(*op, host, &OpTimes::run_ns), now);
}

// By the rules for an operand, with the values that the updates take.
BakedNumbers EagerAccount::baked(std::span<const double> scalars) const {
  BakedNumbers numbers;
  for (const double value : scalars) {
    const TracedScalar scalar{.use = ScalarUse::kOperand, .value = value};
    numbers.push_back(is_parameter(scalar, rules_) ? std::nullopt : std::optional(value));
  }
  return numbers;
}

Graph& EagerAccount::graph_of(EagerOp& op, const Run& run, std::span<const OpTimes> host) {
  if (Graph* const known = cache_.find(op.key, op.graph)) {
    metrics_.count(Counter::kCachedCompile);
    op.graph.program = known->identity.program;
    return *known;
  }
  metrics_.count(Counter::kUncachedCompile);
  return compile(op, run, ns_of(op, host, &OpTimes::compile_ns));
}

Graph& EagerAccount::compile(const EagerOp& op, const Run& run, int64_t host_ns) {
  const int64_t begin = monotonic_ns();
  const Program& program = *op.graph.program;
  Graph graph;
  graph.key = op.key;
  graph.identity = op.graph;
  graph.first_step = run.step;
  graph.tensors = op.graph.program;
  graph.types = hardware_.types;
  graph.size = size_of(program);
  graph.work = traced_work(program, hardware_.types);
  graph.work.uploads.clear();
  MissCause cause =
      cache_.has_forgotten(op.key) ? cause_of_forgotten() : cause_of_op(program, op.number, cache_.compiled());
  graph.kind = cause.kind;
  graph.cause = std::move(cause.text);
  graph.line = std::move(cause.line);
  graph.prediction = LoweredGraph(op.graph, {}).predict(hardware_, /*donate=*/false);
  if (op.hbm_bytes > 0) {
    graph.prediction.hbm_bytes = op.hbm_bytes;
    graph.prediction.unpadded_bytes = op.unpadded_bytes;
    graph.prediction.padded_bytes = op.padded_bytes;
  }
  Graph& kept = cache_.add(std::move(graph));
  check_budget(kept, metrics_.value(Counter::kUncachedCompile), max_graphs_);
  metrics_.count(Counter::kCreateCompileHandles);
  metrics_.add(Metric::kInputOutputAliasCount, 0);
  kept.compile_ns = host_ns + (monotonic_ns() - begin);
  metrics_.add(Metric::kEagerOpCompileTime, kept.compile_ns);
  return kept;
}

}  // namespace runner::backends::tpu
