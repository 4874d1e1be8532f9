#include "runner/train/run/device_report.h"

#include <cmath>
#include <deque>

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

}  // namespace

GraphUse graph_use(const backends::tpu::TpuDeviceModel& device) {
  GraphUse use;
  for (const backends::tpu::Graph& graph : device.graphs()) {
    use.compiled += was_compiled(graph);
    use.compile_seconds += static_cast<double>(graph.compile_ns) * 1e-9;
    use.executions += graph.executions;
  }
  return use;
}

void bring_up_to_date(store::DeviceReport& report, const backends::tpu::TpuDeviceModel& device) {
  const std::deque<backends::tpu::Graph>& graphs = device.graphs();
  for (size_t i = 0; i < report.graphs.size(); ++i) {
    report.graphs[i].executions = graphs[i].executions;
    if (graphs[i].tensors == nullptr) report.graphs[i].texts = nullptr;
  }
  for (size_t i = report.graphs.size(); i < graphs.size(); ++i) report.graphs.push_back(row_of(graphs[i]));
}

}  // namespace runner::train
