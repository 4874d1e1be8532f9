#include "backends/tpu/tpu_model_base.h"

#include "backends/tpu/range_check.h"

namespace runner::backends::tpu {

TpuDeviceModel::Compiled TpuModelBase::on_compile(const Program& program, const UserGraph& user_graph,
                                                  const std::function<std::shared_ptr<Executable>()>& compile) {
  if (!options_.tracks_graphs || pauses_ > 0) return {compile(), nullptr};
  const std::optional<Program> other = user_graph ? user_graph() : std::nullopt;
  const Program& graph = other ? *other : program;
  if (graph.size() == 0) return {compile(), nullptr};
  warnings_.add(range_warnings(graph, options_.hardware.types));
  return compile_graph(program, graph, compile);
}

MetricsSnapshot TpuModelBase::metrics() const {
  slot().finish();
  return metrics_.snapshot();
}

void TpuModelBase::count_submission(const TpuStep& step, const Submission& submission, const SubmissionInfo& info) {
  if (info.step > 0 && std::exchange(newest_step_, info.step) != info.step) ++batches_;
  for (const TracedScalar& scalar : info.traced)
    if (step.passes_scalar(scalar)) numbers_.upload(scalar, metrics_);
  const SourceLines& lines = submission.lines != nullptr ? *submission.lines : step.graph()->lines();
  warnings_.add(range_warnings_of_given(step.given(), submission.batch, lines, options_.hardware.types));
}

void TpuModelBase::count_event(HostEvent event, int64_t times) {
  switch (event) {
    case HostEvent::kStepMark: return metrics_.count(XlaCounter::kMarkStep, times);
    case HostEvent::kScalarRead:
    case HostEvent::kMetricRead: return metrics_.count(XlaCounter::kLocalScalarDense, times);
    case HostEvent::kStateUse:
    case HostEvent::kRecording: return;
  }
}

GraphIdentity TpuModelBase::identity_of(const TpuStep& step, const SubmissionInfo& info) const {
  GraphIdentity identity = step.identity(info, rules_);
  if (options_.dialect.absent_slots_are_inputs) identity.absent.clear();
  return identity;
}

}  // namespace runner::backends::tpu
