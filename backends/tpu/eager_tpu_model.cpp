#include "backends/tpu/eager_tpu_model.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/passes/passes.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {
namespace {

class EagerTpuStep final : public TpuStep {
 public:
  EagerTpuStep(std::shared_ptr<Executable> host, const Program& program, const Program& graph, double seconds)
      : TpuStep(program, graph), traced_seconds(seconds), host_(std::move(host)) {}

  std::span<const OpTimes> times() const { return op_times(*host_); }

  const double traced_seconds;  // predicted minimum time of the graph if it were traced
  EagerStatistics::StepCache eager_steps;

 private:
  const std::shared_ptr<Executable> host_;
};

}  // namespace

GraphForecast EagerTpuModel::forecast(const Program& graph) const {
  return eager_forecast(GraphIdentity::of(compose_attention(graph)), state_tensors(), hardware());
}

TpuDeviceModel::Compiled EagerTpuModel::compile_graph(const Program& program, const Program& graph,
                                                      const std::function<std::shared_ptr<Executable>()>& compile) {
  const NotifiedCompilation notified =
      begin_compile([&] { return fmt::format("the operations of {} nodes", graph.size()); });
  GraphForecast traced = check_eager_memory(GraphIdentity::of(graph), state_tensors(), hardware());
  warn(std::move(traced.padding));
  std::shared_ptr<Executable> host = compile();
  auto step = std::make_shared<EagerTpuStep>(host, program, graph, traced.prediction.least_seconds);
  return {std::move(host), std::move(step)};
}

void EagerTpuModel::submit_graph(TpuStep& step, GraphIdentity graph, const Submission& submission,
                                 const SubmissionInfo& info) {
  auto& eager = static_cast<EagerTpuStep&>(step);
  device().slot().wait();
  warn(range_warnings_of_numbers(graph, hardware().types));
  operations_.begin(graph, eager.scalars(submission, info), state_tensors(), eager.eager_steps, eager.times(),
                    {.step = info.step, .reads = info.reads, .traced_seconds = eager.traced_seconds});
}

void EagerTpuModel::on_submitted(ModelStep& step, const SubmissionInfo& /*info*/, bool /*failed*/) {
  operations_.end(static_cast<EagerTpuStep&>(step).times());
}

void EagerTpuModel::handle_event(HostEvent event, int64_t /*times*/) {
  if (event == HostEvent::kRecording) operations_.begin_recording();
}

std::vector<std::string> EagerTpuModel::analysis() const {
  return eager_analysis_of(graphs(), batches(), operations_.figures());
}

}  // namespace runner::backends::tpu
