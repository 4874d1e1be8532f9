#include "backends/tpu/tpu_device_model.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "backends/exec/cpu_device.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/eager_statistics.h"
#include "backends/tpu/graph_statistics.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/pending_trace.h"
#include "backends/tpu/persistent_cache.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/run_analysis.h"
#include "backends/tpu/submission_slot.h"
#include "backends/tpu/tensor_graph.h"
#include "backends/tpu/tpu_device.h"
#include "backends/tpu/tpu_step.h"

namespace runner::backends::tpu {
namespace {

// A trace without step marker gives a warning after kLongTrace batches, and is ended beyond kMostNodes nodes.
constexpr int64_t kLongTrace = 100;  // batches
constexpr std::string_view kHowToMarkStep =
    "call acc:mark_step() after each optimizer step, or remove tpu.auto_mark_step: false";
constexpr int64_t kMostNodes = 100000;  // as PyTorch/XLA 1.7 trims its graphs

// Calls begun() and ended() of a listener for the duration of a compilation, also if it throws.
class NotifiedCompilation {
 public:
  // `listener`: null if there is none.
  NotifiedCompilation(CompileListener* listener, std::function<std::string()> what) : listener_(listener) {
    if (listener_ != nullptr) listener_->begun(std::move(what));
  }
  ~NotifiedCompilation() {
    if (listener_ != nullptr) listener_->ended();
  }
  NotifiedCompilation(const NotifiedCompilation&) = delete;
  NotifiedCompilation& operator=(const NotifiedCompilation&) = delete;

 private:
  CompileListener* const listener_;
};

// Pending warnings. Each text is reported once.
class PendingWarnings {
 public:
  void add(std::string text) {
    if (seen_.insert(text).second) texts_.push_back(std::move(text));
  }
  void add(std::vector<std::string> texts) {
    for (std::string& text : texts) add(std::move(text));
  }
  std::vector<std::string> take() { return std::exchange(texts_, {}); }

 private:
  std::set<std::string> seen_;  // reported or pending
  std::vector<std::string> texts_;
};

// The trace since the last step marker.
struct PendingBatches {
  int64_t batch = 0, batches = 0;  // first training batch, and number of training batches
  CompileRecord record;
};

// The device counts transfers itself, and a TPU has no streams.
class EmulatedTpuModel final : public TpuDeviceModel {
 public:
  // `device` must outlive the object.
  EmulatedTpuModel(TpuDevice& device, const TpuOptions& options)
      : options_(options), device_(device), metrics_(device.metrics()), stored_(options_.hardware) {}

  bool traces_graphs() const override { return options_.tracks_graphs; }
  std::optional<int64_t> memory_limit() const override { return std::nullopt; }  // graphs are checked one by one

  Compiled on_compile(const Program& program, const UserGraph& user_graph,
                      const std::function<std::shared_ptr<Executable>()>& compile) override {
    if (!options_.tracks_graphs || pauses_ > 0) return {compile(), nullptr};
    const std::optional<Program> other = user_graph ? user_graph() : std::nullopt;
    const Program& graph = other ? *other : program;
    if (graph.size() == 0) return {compile(), nullptr};
    warnings_.add(range_warnings(graph, options_.hardware.types));
    if (options_.eager) return compiled_eagerly(program, graph, compile);
    const int64_t begin = monotonic_ns();
    PersistentCache::Found<PersistentCache::LoadedExecutable> found = stored_.find(program, graph, state_tensors_);
    if (!found.entry) return compiled_graph(program, graph, compile, found.damage);
    warnings_.add(std::move(found.entry->warnings));
    const CompileRecord record{.ns = monotonic_ns() - begin, .compiled = false, .damages = {}};
    return {found.entry->host, std::make_shared<TpuStep>(found.entry->host, record, program, graph)};
  }

  void keep_graphs_in(GraphStore& store) override { stored_.use(store); }

  GraphForecast forecast(const Program& graph) const override {
    const GraphIdentity identity = GraphIdentity::of(graph);
    return options_.eager ? eager_forecast(identity, state_tensors_, options_.hardware)
                          : LoweredGraph(identity, state_tensors_).forecast(options_.hardware);
  }

  void on_submit(ModelStep& step, Submission& submission, const SubmissionInfo& info) override {
    auto& traced = static_cast<TpuStep&>(step);
    if (info.step > 0 && std::exchange(newest_step_, info.step) != info.step) ++batches_;
    for (const TracedScalar& scalar : info.traced)
      if (traced.passes_scalar(scalar)) numbers_.upload(scalar, metrics_);
    check_range(traced, submission);
    if (options_.eager) return begin_eagerly(traced, submission, info);
    if (is_pending(info)) return add_to_pending(traced, info);
    GraphIdentity identity = pending_.read(identity_of(traced, info));
    if (identity.program != traced.graph()) identity.batches = batches_until(info.step);
    Graph& graph = graph_of(std::move(identity), info.step, traced.take_compile_record());
    slot().lock();
    launch(graph);
    device_.count_next_as(SubmissionSlot::Counts::kWhole);
  }

  void on_submitted(ModelStep& step, const SubmissionInfo& info, bool failed) override {
    if (options_.eager) return operations_.end(op_times(*static_cast<TpuStep&>(step).host()));
    if (is_pending(info) && !failed) check_length(info);
  }

  void pause() override { ++pauses_; }
  void resume() override { --pauses_; }

  void on_host_event(HostEvent event, int64_t times) override {
    switch (event) {
      case HostEvent::kStepMark: metrics_.count(Counter::kMarkStep, times); return mark_step();
      case HostEvent::kScalarRead:
        metrics_.count(Counter::kLocalScalarDense, times);
        scalar_reads_ += times;
        return;
      case HostEvent::kMetricRead: metrics_.count(Counter::kLocalScalarDense, times); return mark_step();
      case HostEvent::kStateUse: return mark_step();
      case HostEvent::kRecording: return operations_.begin_recording();
    }
  }

  StateTensors set_state_tensors(StateTensors tensors) override {
    return std::exchange(state_tensors_, std::move(tensors));
  }
  const std::deque<Graph>& graphs() const override { return graphs_.cache().compiled(); }
  MetricsSnapshot metrics() const override {
    slot().finish();
    return metrics_.snapshot();
  }
  std::vector<std::string> analysis() const override {
    if (options_.eager) return eager_analysis_of(graphs_.cache().compiled(), batches_, operations_.figures());
    return analysis_of(graphs_.cache().compiled(), {.batches = batches_, .reads = scalar_reads_});
  }
  void set_listener(CompileListener& listener) override { listener_ = &listener; }
  std::vector<std::string> take_warnings() override { return warnings_.take(); }

 private:
  SubmissionSlot& slot() const { return device_.slot(); }

  // `damage`: describes the damaged store entry of the graph; empty: no entry is damaged.
  Compiled compiled_graph(const Program& program, const Program& graph,
                          const std::function<std::shared_ptr<Executable>()>& compile, const std::string& damage) {
    const int64_t begin = monotonic_ns();
    const GraphIdentity identity = GraphIdentity::of(graph);
    const NotifiedCompilation notified(listener_, [&] { return what_of(identity); });
    std::shared_ptr<Executable> host = compile();
    const LoweredGraph lowered(identity, state_tensors_);
    std::vector<std::string> warnings = lowered.check_memory(options_.hardware);
    CompileRecord record{.ns = monotonic_ns() - begin, .compiled = true, .damages = {}};
    if (!damage.empty()) record.damages.push_back(damage);
    if (stored_.is_on()) stored_.keep(program, graph, state_tensors_, {image_of(*host), warnings});
    warnings_.add(std::move(warnings));
    return {host, std::make_shared<TpuStep>(host, record, program, graph)};
  }

  Compiled compiled_eagerly(const Program& program, const Program& graph,
                            const std::function<std::shared_ptr<Executable>()>& compile) {
    const GraphIdentity identity = GraphIdentity::of(graph);
    const NotifiedCompilation notified(listener_,
                                       [&] { return fmt::format("the operations of {} nodes", graph.size()); });
    GraphForecast traced = check_eager_memory(identity, state_tensors_, options_.hardware);
    warnings_.add(std::move(traced.padding));
    std::shared_ptr<Executable> host = compile();
    const auto step = std::make_shared<TpuStep>(host, CompileRecord(), program, graph);
    step->traced_seconds = traced.prediction.least_seconds;
    return {std::move(host), step};
  }

  void check_range(const TpuStep& step, const Submission& submission) {
    const SourceLines& lines = submission.lines != nullptr ? *submission.lines : step.graph()->lines();
    warnings_.add(range_warnings_of_given(step.given(), submission.batch, lines, options_.hardware.types));
  }

  void begin_eagerly(TpuStep& step, const Submission& submission, const SubmissionInfo& info) {
    slot().wait();
    const GraphIdentity identity = identity_of(step, info);
    warnings_.add(range_warnings_of_numbers(identity, options_.hardware.types));
    operations_.begin(identity, step.scalars(submission, info), state_tensors_, step.eager_steps,
                      op_times(*step.host()),
                      {.step = info.step, .reads = info.reads, .traced_seconds = step.traced_seconds});
  }

  void warn_of_damage(const std::string& damage, const GraphKey& graph) {
    warnings_.add(fmt::format("tpu.persistent_cache: {}; compiling graph {} again", damage, graph.to_string()));
  }

  std::string what_of(const GraphIdentity& graph) const {
    const MissCause cause = graphs_.cache().cause_of(graph);
    const std::string place = cause.line.known() ? fmt::format(" ({})", cause.line.to_string()) : "";
    return fmt::format("a graph of {} nodes: {}{}", graph.program->size(), cause.text, place);
  }

  GraphIdentity identity_of(const TpuStep& step, const SubmissionInfo& info) const {
    GraphIdentity identity = step.identity(info, rules_);
    if (options_.dialect.absent_slots_are_inputs) identity.absent.clear();
    return identity;
  }

  void launch(Graph& graph) {
    slot().count_lock_wait();
    graphs_.launch(graph);
  }

  // Whether a submission becomes a part of the pending trace. It starts at once; it is counted with everything else
  // before the next step marker.
  bool is_pending(const SubmissionInfo& info) const { return options_.batches_per_mark != 1 && !info.reads; }

  void add_to_pending(TpuStep& step, const SubmissionInfo& info) {
    if (pending_batches_.batch == 0) pending_batches_.batch = info.step;
    GraphIdentity part = identity_of(step, info);
    for (TracedScalar& scalar : part.scalars) scalar.batch = batches_until(info.step);
    pending_.add(part);
    pending_batches_.record.add(step.take_compile_record());
    device_.count_next_as(SubmissionSlot::Counts::kPart);
  }

  void check_length(const SubmissionInfo& info) {
    pending_batches_.batches = batches_until(info.step);
    if (pending_batches_.batches == kLongTrace) warn_of_growth();
    if (pending_.nodes() > kMostNodes) end_long_trace();
  }

  // Batches of the trace since the last step marker.
  int64_t batches_until(int64_t step) const { return step - pending_batches_.batch + 1; }

  void end_long_trace() {
    if (!std::exchange(warned_of_length_, true)) {
      warnings_.add(fmt::format(
          "the graph of batches {} to {} has {} nodes and is ended after them: a graph has at most {} nodes; {}",
          pending_batches_.batch, pending_batches_.batch + pending_batches_.batches - 1, pending_.nodes(), kMostNodes,
          options_.batches_per_mark > 0 ? "lower tpu.batches_per_execution" : kHowToMarkStep));
    }
    warned_of_growth_ = true;  // the warning above gives the same advice
    mark_step();
  }

  void warn_of_growth() {
    if (options_.batches_per_mark > 0 || std::exchange(warned_of_growth_, true)) return;
    warnings_.add(
        fmt::format("{0} batches, starting at {1}, were traced without mark_step, and the graph has {2} nodes; it "
                    "grows until mark_step is called; {3}",
                    pending_batches_.batches, pending_batches_.batch, pending_.nodes(), kHowToMarkStep));
  }

  void mark_step() {
    if (pending_.empty()) return;
    if (pending_batches_.batches > 1 && metrics_.value(Counter::kMarkStep) == 0) warn_of_growth();
    const PendingBatches parts = std::exchange(pending_batches_, {});
    GraphIdentity whole = pending_.take();
    whole.batches = parts.batches;
    launch(graph_of(std::move(whole), parts.batch, parts.record));
    slot().end_parts();
  }

  Graph& graph_of(GraphIdentity identity, int64_t step, const CompileRecord& record) {
    const GraphKey key = key_of(identity);
    for (const std::string& damage : record.damages) warn_of_damage(damage, key);
    if (Graph* const known = graphs_.find(key, identity)) return *known;
    warnings_.add(range_warnings_of_numbers(identity, options_.hardware.types));
    ShownGraph shown = shown_graph(identity, state_tensors_);
    Graph graph =
        graphs_.described(key, std::move(identity), std::make_shared<const Program>(std::move(shown.program)), step);
    graph.bookkeeping = std::move(shown.bookkeeping);
    const int64_t begin = monotonic_ns() - record.ns;
    if (stored_.is_on() && is_in_store(graph, record, begin))
      return graphs_.add_stored(std::move(graph), monotonic_ns() - begin);
    graph.prediction = LoweredGraph(graph.identity, state_tensors_).predict(options_.hardware, graph.size.donated > 0);
    Graph& compiled = graphs_.add_compiled(std::move(graph), Metric::kCompileTime, begin);
    if (stored_.is_on()) stored_.keep(compiled.identity, state_tensors_, compiled.prediction);
    return compiled;
  }

  // Takes the prediction from the store. Counts like PyTorch/XLA: a damaged entry is not a miss.
  bool is_in_store(Graph& graph, const CompileRecord& record, int64_t begin_ns) {
    PersistentCache::Found<GraphPrediction> found;
    if (!record.compiled) found = stored_.find(graph.identity, state_tensors_);
    if (!found.damage.empty()) warn_of_damage(found.damage, graph.key);
    if (found.entry) {
      graph.prediction = std::move(*found.entry);
      return true;
    }
    graphs_.check_budget(graph, begin_ns);
    const bool damaged = !record.damages.empty() || !found.damage.empty();
    metrics_.count(damaged ? Counter::kPersistentCacheDeserializeFailure : Counter::kPersistentCacheMiss);
    return false;
  }

  const TpuOptions options_;
  TpuDevice& device_;
  DeviceMetrics& metrics_;
  int pauses_ = 0;
  const ScalarRules rules_ = scalar_rules(options_.dialect, options_.hardware.types);
  GraphStatistics graphs_{options_.hardware, rules_, metrics_, options_.max_graphs};
  EagerStatistics operations_{options_.hardware, rules_, graphs_, metrics_};
  DeviceDataCache numbers_{rules_, options_.hardware.types};
  PersistentCache stored_;
  CompileListener* listener_ = nullptr;
  int64_t batches_ = 0, newest_step_ = 0;  // training batches
  int64_t scalar_reads_ = 0;               // values that a hook has read
  PendingTrace pending_{rules_};
  PendingBatches pending_batches_;
  bool warned_of_growth_ = false, warned_of_length_ = false;
  StateTensors state_tensors_;
  PendingWarnings warnings_;
};

}  // namespace

std::unique_ptr<ModelledDevice> make_tpu_device(const TpuOptions& options) {
  auto device = std::make_unique<TpuDevice>(options);
  auto model = std::make_unique<EmulatedTpuModel>(*device, options);
  return std::make_unique<ModelledDevice>(std::move(device), std::move(model));
}

TpuDeviceModel* find_tpu_model(const ModelledDevice& device) {
  return dynamic_cast<TpuDeviceModel*>(&device.model());
}

TpuDeviceModel& model_of_tpu(const ModelledDevice& device) {
  return static_cast<TpuDeviceModel&>(device.model());
}

}  // namespace runner::backends::tpu
