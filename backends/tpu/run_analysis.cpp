#include "backends/tpu/run_analysis.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/tpu/miss_cause.h"
#include "schema/base/duration.h"

namespace runner::backends::tpu {
namespace {

// As in PyTorch/XLA: no warnings before this many batches, then for what happens in more than half of them.
constexpr int64_t kFewBatches = 10;
constexpr double kOften = 0.5;

std::string place_of(const SourceMark& line) {
  return line.known() ? fmt::format(" ({})", line.to_string()) : "";
}

class RunAnalysis {
 public:
  RunAnalysis(const std::deque<Graph>& graphs, const RunFigures& figures) : graphs_(graphs), figures_(figures) {
    for (const Graph& graph : graphs)
      if (was_compiled(graph)) compiled_.push_back(&graph);
  }

  std::vector<std::string> run() {
    is_often(std::ssize(compiled_)) ? report_compilations() : report_kind(MissKind::kBatchSize, "new batch sizes");
    report_kind(MissKind::kNumber, "numbers whose value changed");
    report_kind(MissKind::kAttribute, "changed exponents", /*names_line=*/true);
    if (is_often(figures_.reads)) report_reads();
    return std::move(texts_);
  }

 private:
  bool is_often(int64_t times) const {
    return figures_.batches >= kFewBatches &&
           static_cast<double>(times) > kOften * static_cast<double>(figures_.batches);
  }

  std::vector<const Graph*> of_kind(MissKind kind) const {
    std::vector<const Graph*> found;
    std::ranges::copy_if(compiled_, std::back_inserter(found),
                         [&](const Graph* graph) { return graph->cause.kind == kind; });
    return found;
  }

  // Example: "12 graphs, which took 0.31 s to compile".
  static std::string text_of(const std::vector<const Graph*>& graphs) {
    int64_t ns = 0;
    for (const Graph* graph : graphs) ns += graph->compile_ns;
    return fmt::format("{}, which took {} to compile",
                       graphs.size() == 1 ? "a graph" : fmt::format("{} graphs", graphs.size()),
                       duration_text(static_cast<double>(ns) * 1e-9));
  }

  void report_compilations() {
    const Graph& newest = *compiled_.back();
    texts_.push_back(fmt::format(
        "graphs are still being compiled at training batch {}: {} batches caused {}; the newest: {}{}",
        newest.first_step, figures_.batches, text_of(compiled_), newest.cause.text, place_of(newest.cause.line)));
  }

  // Adds a text if graphs of a kind were compiled. `who`: the subject of the sentence, what caused them.
  void report_kind(MissKind kind, std::string_view who, bool names_line = false) {
    const std::vector<const Graph*> found = of_kind(kind);
    if (found.empty()) return;
    const Graph& newest = *found.back();
    texts_.push_back(fmt::format("{} caused {}, last at training batch {}: {}{}; {}", who, text_of(found),
                                 newest.first_step, newest.cause.text, names_line ? place_of(newest.cause.line) : "",
                                 advice_for(kind)));
  }

  void report_reads() {
    const double times = static_cast<double>(figures_.reads) / static_cast<double>(figures_.batches);
    texts_.push_back(
        fmt::format("a hook reads {:.3g} tensor values per training batch{}: each read causes a graph break, runs a "
                    "separate graph and waits for the device; return the value as a metric, or read it every n-th step",
                    times, read_place()));
  }

  // Line of the tensor that is read most often.
  std::string read_place() const {
    const Graph* most = nullptr;
    for (const Graph& graph : graphs_) {
      if (graph.identity.program == nullptr) continue;
      const bool reads = role_of(*graph.identity.program) == GraphRole::kRead;
      if (reads && (most == nullptr || graph.executions > most->executions)) most = &graph;
    }
    if (most == nullptr) return "";
    const SourceMark& line = most->identity.program->mark_of(most->identity.program->outputs()[0].value);
    return line.known() ? fmt::format(", of the tensor created at {}", line.to_string()) : "";
  }

  const std::deque<Graph>& graphs_;
  const RunFigures figures_;
  std::vector<const Graph*> compiled_;
  std::vector<std::string> texts_;
};

}  // namespace

std::vector<std::string> analysis_of(const std::deque<Graph>& graphs, const RunFigures& figures) {
  return RunAnalysis(graphs, figures).run();
}

std::vector<std::string> eager_analysis_of(const std::deque<Graph>& graphs, int64_t batches,
                                           const EagerFigures& figures) {
  if (batches == 0 || figures.operations == 0) return {};
  const auto of_batch = [&](double all) { return all / static_cast<double>(batches); };
  std::vector<std::string> texts = {fmt::format(
      "tpu.eager dispatches {:.4g} operations of {} compiled kinds per training batch; their predicted device time is "
      "{:.3g} ms, or {:.3g} ms if each batch is traced as one graph; disable tpu.eager",
      of_batch(static_cast<double>(figures.operations)), graphs.size(), of_batch(figures.seconds) * 1e3,
      of_batch(figures.traced_seconds) * 1e3)};
  if (const Graph* const newest = figures.newest; newest != nullptr && newest->first_step > 1)
    texts.push_back(fmt::format("operations were still being compiled at training batch {}; the newest: {}{}",
                                newest->first_step, newest->cause.text, place_of(newest->cause.line)));
  return texts;
}

}  // namespace runner::backends::tpu
