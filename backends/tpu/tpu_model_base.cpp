#include "backends/tpu/tpu_model_base.h"

#include "backends/ir/passes/passes.h"
#include "backends/tpu/graph_text.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/tensor_graph.h"

namespace runner::backends::tpu {

TpuDeviceModel::Compiled TpuModelBase::on_compile(const Program& program, const UserGraph& user_graph,
                                                  const std::function<std::shared_ptr<Executable>()>& compile) {
  if (!options_.tracks_graphs || pauses_ > 0) return {compile(), nullptr};
  const std::optional<Program> other = user_graph ? user_graph() : std::nullopt;
  const Program graph = compose_attention(other ? *other : program);
  if (graph.size() == 0) return {compile(), nullptr};
  warnings_.add(range_warnings(graph, options_.hardware.types));
  return compile_graph(program, graph, compile);
}

MetricsSnapshot TpuModelBase::metrics() const {
  device_.slot().finish();
  return device_.metrics().snapshot();
}

std::string TpuModelBase::ir_text(const Program& graph) const {
  const ShownGraph shown = shown_graph(GraphIdentity::of(compose_attention(graph)), state_tensors_);
  return tpu::ir_text(shown.program, {options_.hardware.types, shown.bookkeeping});
}

void TpuModelBase::on_submit(ModelStep& step, Submission& submission, const SubmissionInfo& info) {
  auto& tpu_step = static_cast<TpuStep&>(step);
  count_submission(tpu_step, submission, info);
  submit_graph(tpu_step, identity_of(tpu_step, info), submission, info);
}

void TpuModelBase::on_host_event(HostEvent event, int64_t times) {
  count_event(event, times);
  handle_event(event, times);
}

// Also checks the range of tensor literals.
void TpuModelBase::count_submission(const TpuStep& step, const Submission& submission, const SubmissionInfo& info) {
  if (info.step > 0 && std::exchange(newest_step_, info.step) != info.step) ++batches_;
  for (const TracedScalar& scalar : info.traced)
    if (step.passes_scalar(scalar)) numbers_.upload(scalar, device_.metrics());
  const SourceLines& lines = submission.lines != nullptr ? *submission.lines : step.graph()->lines();
  warnings_.add(range_warnings_of_given(step.given(), submission.batch, lines, options_.hardware.types));
}

void TpuModelBase::count_event(HostEvent event, int64_t times) {
  switch (event) {
    case HostEvent::kStepMark: return device_.metrics().count(XlaCounter::kMarkStep, times);
    case HostEvent::kScalarRead:
    case HostEvent::kEvaluationRead:
    case HostEvent::kMetricRead: return device_.metrics().count(XlaCounter::kLocalScalarDense, times);
    case HostEvent::kStateUse:
    case HostEvent::kRecording: return;
  }
}

GraphIdentity TpuModelBase::identity_of(const TpuStep& step, const SubmissionInfo& info) const {
  GraphIdentity identity = step.identity(info, statistics_.cache().rules());
  if (options_.dialect.absent_slots_are_inputs) identity.absent.clear();
  return identity;
}

}  // namespace runner::backends::tpu
