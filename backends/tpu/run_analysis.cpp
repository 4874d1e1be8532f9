#include "backends/tpu/run_analysis.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backends/tpu/miss_cause.h"
#include "schema/base/duration.h"

namespace runner::backends::tpu {
namespace {

// As in PyTorch/XLA: no warnings before this many batches, then for what happens in more than half of them.
constexpr int64_t kFewBatches = 10;
constexpr double kOften = 0.5;

// Graphs whose shapes, operations or numbers changed: more than a step and an evaluation with accumulation have, and in
// more than every tenth batch; or their compilation takes this long, and this part of the run.
constexpr int64_t kManyGraphs = 5;
constexpr double kSometimes = 0.1;
constexpr double kLongSeconds = 2, kMuchTime = 0.1;

// Causes of compilations that a warning reports.
struct ReportedKind {
  MissKind kind;
  // The remedy depends on whether it is a graph of an evaluation or of training. None: both; such graphs are reported
  // even if report_compilations() reports all.
  std::optional<bool> evaluates;
  std::string_view who;  // subject of the sentence: what caused the graphs
  bool names_line;
};
constexpr ReportedKind kReportedKinds[] = {
    {MissKind::kBatchSize, false, "new batch sizes in training", false},
    {MissKind::kBatchSize, true, "new batch sizes in evaluations", false},
    {MissKind::kStructure, false, "changing shapes or operations in training", true},
    {MissKind::kStructure, true, "changing shapes or operations in evaluations", true},
    {MissKind::kNumber, {}, "numbers whose value changed", false},
    {MissKind::kAttribute, {}, "changed exponents", true},
};

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
    const bool compiles_often = is_often(std::ssize(compiled_));
    if (compiles_often) report_compilations();
    for (const ReportedKind& kind : kReportedKinds)
      if (!compiles_often || !kind.evaluates) report_kind(kind);
    if (is_often(figures_.reads)) report_reads();
    if (figures_.evaluation_reads >= kFewBatches) report_evaluation_reads();
    return std::move(texts_);
  }

 private:
  bool is_often(int64_t times) const {
    return figures_.batches >= kFewBatches &&
           static_cast<double>(times) > kOften * static_cast<double>(figures_.batches);
  }

  std::vector<const Graph*> of_kind(const ReportedKind& kind) const {
    std::vector<const Graph*> found;
    std::ranges::copy_if(compiled_, std::back_inserter(found), [&](const Graph* graph) {
      return graph->cause.kind == kind.kind && (!kind.evaluates || is_of_evaluation(*graph) == *kind.evaluates);
    });
    return found;
  }

  // Example: "12 graphs, which took 0.31 s to compile".
  static std::string text_of(const std::vector<const Graph*>& graphs) {
    return fmt::format("{}, which took {} to compile",
                       graphs.size() == 1 ? "a graph" : fmt::format("{} graphs", graphs.size()),
                       duration_text(seconds_of(graphs)));
  }

  static double seconds_of(const std::vector<const Graph*>& graphs) {
    int64_t ns = 0;
    for (const Graph* graph : graphs) ns += graph->compile_ns;
    return static_cast<double>(ns) * 1e-9;
  }

  void report_compilations() {
    const Graph& newest = *compiled_.back();
    texts_.push_back(fmt::format(
        "graphs are still being compiled at training batch {}: {} batches caused {}; the newest: {}{}",
        newest.first_step, figures_.batches, text_of(compiled_), newest.cause.text, place_of(newest.cause.line)));
  }

  // Whether the graphs of a kind cost enough time for a warning. A short batch costs a graph wherever it occurs, and
  // the advice is simple, so it is always worth one.
  bool are_costly(MissKind kind, const std::vector<const Graph*>& found) const {
    if (kind == MissKind::kBatchSize) return !found.empty();
    const double seconds = seconds_of(found);
    const bool are_many = figures_.batches >= kFewBatches &&
                          static_cast<double>(found.size()) > kSometimes * static_cast<double>(figures_.batches);
    const bool are_slow = seconds >= kLongSeconds && seconds > kMuchTime * figures_.seconds;
    const bool are_enough = std::ssize(found) >= kManyGraphs;
    return kind == MissKind::kStructure ? are_enough && (are_many || are_slow) : (are_enough && are_many) || are_slow;
  }

  // Adds a text if graphs of a kind were compiled and cost enough time.
  void report_kind(const ReportedKind& kind) {
    const std::vector<const Graph*> found = of_kind(kind);
    if (!are_costly(kind.kind, found)) return;
    const bool are_structures = kind.kind == MissKind::kStructure;
    const Graph& newest = *found.back();
    const std::string when = are_structures ? fmt::format("in a run of {} training batches, last at batch {}",
                                                          figures_.batches, newest.first_step)
                                            : fmt::format("last at training batch {}", newest.first_step);
    texts_.push_back(fmt::format(
        "{} caused {}, {}: {}{}; {}", kind.who, text_of(found), when, newest.cause.text,
        kind.names_line ? place_of(newest.cause.line) : "",
        are_structures ? same_shapes_advice(figures_.short_batches) : advice_for(newest, figures_.short_batches)));
  }

  void report_evaluation_reads() {
    int64_t batches = 0;
    for (const Graph& graph : graphs_) batches += graph.role == GraphRole::kForward ? graph.executions : 0;
    if (static_cast<double>(figures_.evaluation_reads) <= kOften * static_cast<double>(batches)) return;
    texts_.push_back(
        fmt::format("a hook reads {} tensor values in evaluations{}: each read causes a graph break, runs a separate "
                    "graph and waits for the device; return the value as a metric of evaluation_step, or read a sum "
                    "after the last batch",
                    figures_.evaluation_reads, read_place(/*evaluates=*/true)));
  }

  void report_reads() {
    const double times = static_cast<double>(figures_.reads) / static_cast<double>(figures_.batches);
    if (const Graph* const most = read_most(/*evaluates=*/false); most != nullptr && reads_skip(*most)) {
      texts_.push_back(
          fmt::format("a hook reads {:.3g} tensor values per training batch, most often "
                      "acc.optimizer_step_was_skipped: each read causes a graph break, runs a separate graph and waits "
                      "for the device; leave it out: a skipped step changes neither weights nor schedule, and the "
                      "summary counts it",
                      times));
      return;
    }
    texts_.push_back(
        fmt::format("a hook reads {:.3g} tensor values per training batch{}: each read causes a graph break, runs a "
                    "separate graph and waits for the device; return the value as a metric, or read it every n-th step",
                    times, read_place(/*evaluates=*/false)));
  }

  const Graph* read_most(bool evaluates) const {
    const Graph* most = nullptr;
    for (const Graph& graph : graphs_) {
      if (graph.identity.program == nullptr) continue;
      const bool reads = graph.role == GraphRole::kRead && graph.evaluates == evaluates;
      if (reads && (most == nullptr || graph.executions > most->executions)) most = &graph;
    }
    return most;
  }

  static bool reads_skip(const Graph& graph) { return graph.identity.program->outputs()[0].name == kStepWasSkipped; }

  // Line of the tensor that is read most often.
  std::string read_place(bool evaluates) const {
    const Graph* const most = read_most(evaluates);
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
