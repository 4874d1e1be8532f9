#include "backends/tpu/lazy_tpu_model.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/passes/passes.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/run_analysis.h"
#include "backends/tpu/tensor_graph.h"

namespace runner::backends::tpu {
namespace {

// A trace without step marker gives a warning after kLongTrace batches, and is ended beyond kMaxNodes nodes.
constexpr int64_t kLongTrace = 100;  // batches
constexpr std::string_view kHowToMarkStep =
    "call acc:mark_step() after each optimizer step, or remove tpu.auto_mark_step: false";
constexpr int64_t kMaxNodes = 100000;  // as PyTorch/XLA 1.7 trims its graphs

class LazyTpuStep final : public TpuStep {
 public:
  LazyTpuStep(CompileRecord record, const Program& program, const Program& graph)
      : TpuStep(program, graph), compile_record_(std::move(record)) {}

  // Returns the record once, when the executable first runs.
  CompileRecord take_compile_record() { return std::exchange(compile_record_, {}); }

 private:
  CompileRecord compile_record_;
};

}  // namespace

void CompileRecord::add(const CompileRecord& other) {
  ns += other.ns;
  compiled |= other.compiled;
  damages.insert(damages.end(), other.damages.begin(), other.damages.end());
}

GraphForecast LazyTpuModel::forecast(const Program& graph) const {
  return LoweredGraph(GraphIdentity::of(compose_attention(graph)), state_tensors()).forecast(hardware());
}

TpuDeviceModel::Compiled LazyTpuModel::compile_graph(const Program& program, const Program& graph,
                                                     const std::function<std::shared_ptr<Executable>()>& compile) {
  const int64_t begin = monotonic_ns();
  PersistentCache::Found<PersistentCache::LoadedExecutable> found = stored_.find(program, graph, state_tensors());
  if (!found.entry) return compile_uncached(program, graph, compile, found.damage);
  warn(std::move(found.entry->warnings));
  const CompileRecord record{.ns = monotonic_ns() - begin, .compiled = false, .damages = {}};
  return {found.entry->host, std::make_shared<LazyTpuStep>(record, program, graph)};
}

TpuDeviceModel::Compiled LazyTpuModel::compile_uncached(const Program& program, const Program& graph,
                                                        const std::function<std::shared_ptr<Executable>()>& compile,
                                                        const std::string& damage) {
  const int64_t begin = monotonic_ns();
  const GraphIdentity identity = GraphIdentity::of(graph);
  const NotifiedCompilation notified = begin_compile([&] { return describe(identity); });
  std::shared_ptr<Executable> host = compile();
  const LoweredGraph lowered(identity, state_tensors());
  std::vector<std::string> warnings = lowered.check_memory(hardware());
  CompileRecord record{.ns = monotonic_ns() - begin, .compiled = true, .damages = {}};
  if (!damage.empty()) record.damages.push_back(damage);
  if (stored_.is_on()) stored_.keep(program, graph, state_tensors(), {image_of(*host), warnings});
  warn(std::move(warnings));
  return {std::move(host), std::make_shared<LazyTpuStep>(std::move(record), program, graph)};
}

std::string LazyTpuModel::describe(const GraphIdentity& graph) const {
  const MissCause cause = statistics().cache().cause_of(graph);
  const std::string place = cause.line.known() ? fmt::format(" ({})", cause.line.to_string()) : "";
  return fmt::format("a graph of {} nodes: {}{}", graph.program->size(), cause.text, place);
}

void LazyTpuModel::warn_of_damage(const std::string& damage, const GraphKey& graph) {
  warn(fmt::format("tpu.persistent_cache: {}; compiling graph {} again", damage, graph.to_string()));
}

void LazyTpuModel::submit_graph(TpuStep& step, GraphIdentity graph, const Submission& /*submission*/,
                                const SubmissionInfo& info) {
  auto& traced = static_cast<LazyTpuStep&>(step);
  if (begun_ns_ == 0) begun_ns_ = monotonic_ns();
  if (is_pending(info)) {
    if (pending_batches_.batch == 0) pending_batches_.batch = info.step;
    for (TracedScalar& scalar : graph.scalars) scalar.batch = batches_until(info.step);
    pending_.add(graph);
    pending_batches_.record.add(traced.take_compile_record());
    return device().count_next_as(SubmissionSlot::Counts::kPart);
  }
  GraphIdentity whole = pending_.read(std::move(graph));
  if (whole.program != traced.graph()) whole.batches = batches_until(info.step);
  whole.evaluates = info.evaluates;
  Graph& launched = graph_of(std::move(whole), info.step, traced.take_compile_record());
  device().slot().lock();
  launch(launched);
  device().count_next_as(SubmissionSlot::Counts::kWhole);
}

void LazyTpuModel::on_submitted(ModelStep& /*step*/, const SubmissionInfo& info, bool failed) {
  if (is_pending(info) && !failed) check_length(info);
}

void LazyTpuModel::handle_event(HostEvent event, int64_t times) {
  switch (event) {
    case HostEvent::kStepMark:
    case HostEvent::kMetricRead:
    case HostEvent::kStateUse: return mark_step();
    case HostEvent::kScalarRead: reads_.training += times; return;
    case HostEvent::kEvaluationRead: reads_.evaluation += times; return;
    case HostEvent::kRecording: return;
  }
}

std::vector<std::string> LazyTpuModel::analysis() const {
  const double seconds = begun_ns_ > 0 ? static_cast<double>(monotonic_ns() - begun_ns_) * 1e-9 : 0;
  return analysis_of(graphs(), {.batches = batches(),
                                .reads = reads_.training,
                                .evaluation_reads = reads_.evaluation,
                                .seconds = seconds,
                                .short_batches = short_batches()});
}

void LazyTpuModel::check_length(const SubmissionInfo& info) {
  pending_batches_.batches = batches_until(info.step);
  if (pending_batches_.batches == kLongTrace) warn_of_growth();
  if (pending_.nodes() > kMaxNodes) end_long_trace();
}

void LazyTpuModel::end_long_trace() {
  if (!std::exchange(warned_of_length_, true)) {
    warn(fmt::format(
        "the graph of batches {} to {} has {} nodes and is ended after them: a graph has at most {} nodes; {}",
        pending_batches_.batch, pending_batches_.batch + pending_batches_.batches - 1, pending_.nodes(), kMaxNodes,
        batches_per_mark_ > 0 ? "lower tpu.batches_per_execution" : kHowToMarkStep));
  }
  warned_of_growth_ = true;  // the warning above gives the same advice
  mark_step();
}

void LazyTpuModel::warn_of_growth() {
  if (batches_per_mark_ > 0 || std::exchange(warned_of_growth_, true)) return;
  warn(
      fmt::format("{0} batches, starting at {1}, were traced without mark_step, and the graph has {2} nodes; it "
                  "grows until mark_step is called; {3}",
                  pending_batches_.batches, pending_batches_.batch, pending_.nodes(), kHowToMarkStep));
}

void LazyTpuModel::mark_step() {
  if (pending_.empty()) return;
  if (pending_batches_.batches > 1 && device().metrics().value(XlaCounter::kMarkStep) == 0) warn_of_growth();
  const PendingBatches parts = std::exchange(pending_batches_, {});
  GraphIdentity whole = pending_.take();
  whole.batches = parts.batches;
  launch(graph_of(std::move(whole), parts.batch, parts.record));
  device().slot().end_parts();
}

Graph& LazyTpuModel::graph_of(GraphIdentity identity, int64_t step, const CompileRecord& record) {
  const GraphKey key = key_of(identity);
  for (const std::string& damage : record.damages) warn_of_damage(damage, key);
  if (Graph* const known = statistics().find(key, identity)) return *known;
  warn(range_warnings_of_numbers(identity, hardware().types));
  ShownGraph shown = shown_graph(identity, state_tensors());
  Graph graph =
      statistics().described(key, std::move(identity), std::make_shared<const Program>(std::move(shown.program)), step);
  graph.bookkeeping = std::move(shown.bookkeeping);
  const int64_t begin = monotonic_ns() - record.ns;
  if (stored_.is_on() && is_in_store(graph, record, begin))
    return statistics().add_stored(std::move(graph), monotonic_ns() - begin);
  graph.prediction = LoweredGraph(graph.identity, state_tensors()).predict(hardware(), graph.size.donated > 0);
  Graph& compiled = statistics().add_compiled(std::move(graph), XlaMetric::kCompileTime, begin);
  if (stored_.is_on()) stored_.keep(compiled.identity, state_tensors(), compiled.prediction);
  return compiled;
}

bool LazyTpuModel::is_in_store(Graph& graph, const CompileRecord& record, int64_t begin_ns) {
  PersistentCache::Found<GraphPrediction> found;
  if (!record.compiled) found = stored_.find(graph.identity, state_tensors());
  if (!found.damage.empty()) warn_of_damage(found.damage, graph.key);
  if (found.entry) {
    graph.prediction = std::move(*found.entry);
    return true;
  }
  statistics().check_budget(graph, begin_ns);
  const bool damaged = !record.damages.empty() || !found.damage.empty();
  device().metrics().count(damaged ? XlaCounter::kPersistentCacheDeserializeFailure : XlaCounter::kPersistentCacheMiss);
  return false;
}

void LazyTpuModel::launch(Graph& graph) {
  device().slot().count_lock_wait();
  statistics().launch(graph);
}

}  // namespace runner::backends::tpu
