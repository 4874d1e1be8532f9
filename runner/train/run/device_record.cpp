#include "runner/train/run/device_record.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "backends/tpu/graph_text.h"

namespace runner::train {
namespace {

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(std::llround(seconds * 1e9));
}

// Null if the device has not kept the graph's tensors.
std::shared_ptr<const store::GraphTexts> texts_of(const backends::tpu::Graph& graph) {
  if (graph.tensors == nullptr) return nullptr;
  return std::make_shared<const store::GraphTexts>(
      store::GraphTexts{.ir = backends::tpu::ir_text(*graph.tensors, {graph.types, graph.bookkeeping}),
                        .hlo = backends::tpu::hlo_text(*graph.tensors, {graph.types, graph.bookkeeping})});
}

store::GraphRow row_of(const backends::tpu::Graph& graph) {
  return {.key = graph.key.to_string(),
          .first_step = graph.first_step,
          .cause = graph.cause.text,
          .file = graph.cause.line.file,
          .line = graph.cause.line.line,
          .nodes = graph.size.nodes,
          .inputs = graph.size.inputs,
          .outputs = graph.size.outputs,
          .donated = graph.size.donated,
          .compile_ns = graph.compile_ns,
          .executions = graph.executions,
          .hbm_bytes = graph.prediction.hbm_bytes,
          .flops = graph.prediction.flops,
          .bytes = graph.prediction.bytes,
          .unpadded_bytes = graph.prediction.unpadded_bytes,
          .padded_bytes = graph.prediction.padded_bytes,
          .least_ns = nanoseconds(graph.prediction.least_seconds),
          .most_ns = nanoseconds(graph.prediction.most_seconds),
          .formula = graph.prediction.formula,
          .texts = texts_of(graph)};
}

// Adds the graphs that the report lacks and updates all execution counts. Leaves its metrics unchanged.
void bring_up_to_date(store::DeviceReport& report, const backends::tpu::TpuDeviceModel& device) {
  const std::deque<backends::tpu::Graph>& graphs = device.graphs();
  for (size_t i = 0; i < report.graphs.size(); ++i) {
    report.graphs[i].executions = graphs[i].executions;
    if (graphs[i].tensors == nullptr) report.graphs[i].texts = nullptr;
  }
  for (size_t i = report.graphs.size(); i < graphs.size(); ++i) report.graphs.push_back(row_of(graphs[i]));
}

}  // namespace

DeviceRecord::DeviceRecord(const RunRequest& request, Session& session, RunRecord& record, PersistentGraphs* graphs)
    : request_(request),
      session_(session),
      record_(record),
      graphs_(graphs),
      tpu_(backends::tpu::find_tpu_model(*session.device)),
      gpu_(backends::gpu::find_gpu_model(*session.device)) {}

void DeviceRecord::begin() {
  if (gpu_ != nullptr) gpu_->take_predicted_time();
  first_step_ = session_.trainer.counters.steps;
}

void DeviceRecord::end(Activity activity, int64_t copies) {
  switch (activity) {
    case Activity::kTraining: measure(&PeakMemory::training, copies); return count_predicted(&GpuDeviceUse::training);
    case Activity::kEvaluation:
      measure(&PeakMemory::evaluation, copies);
      return count_predicted(&GpuDeviceUse::evaluation);
    case Activity::kSaving: measure(&PeakMemory::saving, copies); return count_predicted(&GpuDeviceUse::saving);
  }
}

void DeviceRecord::measure(int64_t PeakMemory::*peak, int64_t copies) {
  PeakMemory& peaks = record_.result.peak_memory;
  if (gpu_ == nullptr) {
    peaks.*peak = std::max(peaks.*peak, session_.trainer.memory().total() + copies);
    return;
  }
  // Copies for checkpoints are on the host. Memory reserved by an evaluation stays reserved, so training includes it.
  if (peak == &PeakMemory::training && peaks.evaluation > 0) return;
  peaks.*peak = gpu_->memory_statistics().all.reserved_bytes.peak;
}

void DeviceRecord::count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*time) {
  if (gpu_ != nullptr) gpu_use_.*time += gpu_->take_predicted_time();
}

void DeviceRecord::record_graphs() {
  store::RunWriter* const writer = record_.writer();
  if (writer == nullptr || tpu_ == nullptr) return;
  bring_up_to_date(report_, *tpu_);
  report_.metrics_json = request_.recording.metrics_document(tpu_->metrics());
  writer->device_report(report_);
  if (graphs_ != nullptr) writer->compiled_graphs(graphs_->take());
}

void DeviceRecord::record_gpus(backends::ProcessGroup* ranks) {
  if (gpu_ == nullptr) return;
  count_predicted(&GpuDeviceUse::training);
  const int64_t step = session_.trainer.counters.steps;
  gpu_use_.steps = first_step_ ? step - *first_step_ : 0;
  record_.result.gpu =
      ranks != nullptr ? gpu_use_of_all(*gpu_, gpu_use_, *ranks, {"GPU statistics", step}) : gpu_use(*gpu_, gpu_use_);
  store::RunWriter* const writer = record_.writer();
  if (writer == nullptr) return;
  report_.metrics_json = gpu_document(*record_.result.gpu);
  writer->device_report(report_);
}

std::optional<GraphUse> DeviceRecord::graph_use() const {
  if (tpu_ == nullptr) return std::nullopt;
  GraphUse use;
  for (const backends::tpu::Graph& graph : tpu_->graphs()) {
    use.compiled += was_compiled(graph);
    use.compile_seconds += static_cast<double>(graph.compile_ns) * 1e-9;
    use.executions += graph.executions;
    use.least_seconds += static_cast<double>(graph.executions) * graph.prediction.least_seconds;
    use.most_seconds += static_cast<double>(graph.executions) * graph.prediction.most_seconds;
  }
  return use;
}

}  // namespace runner::train
