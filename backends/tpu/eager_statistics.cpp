#include "backends/tpu/eager_statistics.h"

#include <algorithm>
#include <cmath>

#include "backends/runtime/spans.h"
#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {

void EagerStatistics::begin(const GraphIdentity& graph, std::span<const TracedScalar> scalars,
                            const StateTensors& state_tensors, StepCache& steps, std::span<const OpTimes> host,
                            const Run& run) {
  const BakedNumbers numbers = baked(scalars);
  EagerStep& step = steps.find_or_make({numbers, graph.signature, graph.absent}, [&] {
    EagerStep made = eager_step(graph, numbers, state_tensors, graphs_.hardware());
    match(made, host);
    return made;
  });
  run_ = run;
  const GraphRole role = role_of(*graph.program);
  if (role == GraphRole::kUpdate) newest_update_ = run.step;
  // Evaluations carry the number of the training batch before them.
  is_of_training_ = role == GraphRole::kUpdate || (role == GraphRole::kRead && run.step > newest_update_);
  running_.clear();
  std::map<RecordedOp, int64_t> have_run = run.reads ? have_run_ : std::exchange(have_run_, {});
  for (EagerOp& op : step.ops) {
    if (!have_run.empty())
      if (const auto before = have_run.find(recorded_op(op)); before != have_run.end() && before->second > 0) {
        --before->second;
        continue;
      }
    running_.push_back({&op, &graph_of(op, host)});
  }
  if (run.reads) return;
  for (const int64_t bytes : step.uploads) graphs_.metrics().add(XlaMetric::kOutboundData, bytes);
  if (is_of_training_) figures_.traced_seconds += run.traced_seconds;
}

void EagerStatistics::end(std::span<const OpTimes> host) {
  const int64_t now = monotonic_ns();
  for (const auto& [op, graph] : running_) {
    if (!has_run(*op, host)) break;  // operations run in order: none after it has run
    graphs_.launch(*graph);
    graphs_.metrics().add(XlaMetric::kDeviceLockWait, 0);
    graphs_.metrics().add(XlaMetric::kEagerOpExecuteTime, ns_of(*op, host, &OpTimes::run_ns), now);
    if (run_.reads) ++have_run_[recorded_op(*op)];
    if (!is_of_training_) continue;
    ++figures_.operations;
    figures_.seconds += graph->prediction.least_seconds;
  }
}

// Scalars that are baked into operations: attributes as written, others rounded to the 0, 1 or -1 that the device sees.
BakedNumbers EagerStatistics::baked(std::span<const TracedScalar> scalars) const {
  BakedNumbers numbers;
  for (const TracedScalar& scalar : scalars) {
    const bool is_attribute = scalar.use == ScalarUse::kAttribute;
    const double value = (is_attribute ? scalar.value : std::round(scalar.value)) + 0.0;
    const bool is_baked = !is_parameter(scalar, graphs_.cache().rules());
    numbers.push_back(is_baked ? std::optional(BakedNumber{value, is_attribute}) : std::nullopt);
  }
  return numbers;
}

Graph& EagerStatistics::graph_of(EagerOp& op, std::span<const OpTimes> host) {
  Graph* const known = graphs_.find(op.key, op.graph);
  if (known == nullptr) return compile(op, ns_of(op, host, &OpTimes::compile_ns));
  op.graph.program = known->identity.program;
  return *known;
}

Graph& EagerStatistics::compile(const EagerOp& op, int64_t host_ns) {
  const int64_t begin = monotonic_ns() - host_ns;
  Graph graph = graphs_.described(op.key, op.graph, op.graph.program, run_.step);
  graph.work.uploads.clear();
  graph.bookkeeping = op.graph.bookkeeping;
  graph.cause = graphs_.cache().was_evicted(op.key) ? cause_of_eviction()
                                                    : cause_of_op(op.graph, op.number, graphs_.cache().compiled());
  graph.prediction = LoweredGraph(op.graph, {}).predict(graphs_.hardware(), /*donate=*/false);
  if (op.hbm_bytes > 0) {
    graph.prediction.hbm_bytes = op.hbm_bytes;
    graph.prediction.unpadded_bytes = op.unpadded_bytes;
    graph.prediction.padded_bytes = op.padded_bytes;
  }
  Graph& kept = graphs_.add_compiled(std::move(graph), XlaMetric::kEagerOpCompileTime, begin);
  if (is_of_training_) figures_.newest = &kept;
  return kept;
}

}  // namespace runner::backends::tpu
