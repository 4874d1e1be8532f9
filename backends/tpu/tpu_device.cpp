#include "backends/tpu/tpu_device.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/account.h"
#include "backends/cpu/cpu_device.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/eager_account.h"
#include "backends/tpu/eager_forecast.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/graph_account.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/pending_trace.h"
#include "backends/tpu/persistent_cache.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/run_analysis.h"
#include "backends/tpu/submission_slot.h"
#include "backends/tpu/tensor_graph.h"
#include "backends/tpu/tpu_executable.h"
#include "backends/tpu/warning_list.h"

namespace runner::backends::tpu {
namespace {

// A trace without step marker gives a warning after kLongTrace batches, and is cut beyond kMostNodes nodes.
constexpr int64_t kLongTrace = 100;  // batches
constexpr std::string_view kHowToCut =
    "call acc:mark_step() behind each optimizer step, or leave out tpu.auto_mark_step: false";
constexpr int64_t kMostNodes = 100000;  // as PyTorch/XLA 1.7 trims its graphs

// The trace since the last step marker.
struct Uncut {
  int64_t batch = 0, batches = 0;  // first training batch, and number of training batches
  Making making;
};

class EmulatedTpu final : public TpuDevice, private Account {
 public:
  explicit EmulatedTpu(const TpuOptions& options)
      : options_(options),
        host_(options.eager ? make_eager_host(make_cpu_device(options.threads)) : make_cpu_device(options.threads)),
        slot_(std::make_unique<SubmissionSlot>(*host_, metrics_,
                                               options.own_thread && !options.waits_at_cuts && !options.eager)),
        stored_(options_.hardware) {}

  std::string_view name() const override { return "tpu"; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return host_->allocate(bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return host_->wrap(std::move(memory), bytes);
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    slot_->wait();
    const TimedSection section(metrics_, Metric::kTransferToDeviceTime);
    metrics_.add(Metric::kOutboundData, static_cast<int64_t>(source.size()));
    host_->write(buffer, offset, source);
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    slot_->wait();
    count_download(target.size());
    const TimedSection section(metrics_, Metric::kTransferFromDeviceTime);
    host_->read(buffer, offset, target);
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<TpuExecutable>(host_->compile(in_numbers_of_device(program)));
  }

  std::shared_ptr<Executable> compile_graph(const Program& program, const Program& graph) override {
    if (!options_.keeps_account) return compile(program);
    warnings_.add(range_warnings(graph, options_.hardware.types));
    if (options_.eager) return compiled_eagerly(program, graph);
    const int64_t begin = monotonic_ns();
    PersistentCache::Found<PersistentCache::LoadedExecutable> found = stored_.find(program, graph, state_tensors_);
    if (!found.entry) return compiled_graph(program, graph, found.damage);
    warnings_.add(std::move(found.entry->warnings));
    const Making making{.ns = monotonic_ns() - begin, .compiled = false, .damages = {}};
    return std::make_shared<TpuExecutable>(std::move(found.entry->host), making, program, graph);
  }

  Account* account() override { return this; }
  bool keeps_graphs() const override { return options_.keeps_account; }
  bool rounds_operands() const override {
    return options_.hardware.types.f32 == DType::kF32 &&
           options_.hardware.machine.precision != MatmulPrecision::kHighest;
  }

  void keep_graphs_in(GraphStore& store) override { stored_.use(store); }

  GraphForecast forecast(const Program& graph) const override {
    const GraphIdentity identity{std::make_shared<const Program>(graph), {}, {}, {}};
    return options_.eager ? eager_forecast(identity, state_tensors_, options_.hardware)
                          : LoweredGraph(identity, state_tensors_).forecast(options_.hardware);
  }

  Ticket submit(Executable& executable, const Arguments& arguments) override {
    auto& ready = static_cast<TpuExecutable&>(executable);
    has_begun_ = false;
    if (!ready.is_graph()) return begin(ready, arguments, SubmissionSlot::Counts::kNothing);
    if (arguments.step > 0 && std::exchange(newest_step_, arguments.step) != arguments.step) ++batches_;
    for (const TracedScalar& scalar : arguments.traced)
      if (ready.hands_over(scalar)) numbers_.upload(scalar, metrics_);
    check_range(ready, arguments);
    if (options_.eager) return submit_eagerly(ready, arguments);
    if (options_.batches_between_cuts != 1 && !arguments.reads) return submit_pending(ready, arguments);
    GraphIdentity identity = pending_.read(identity_of(ready, arguments));
    if (identity.program != ready.graph()) identity.batches = batches_until(arguments.step);
    Graph& graph = graph_of(std::move(identity), arguments.step, ready.take_making());
    slot_->lock();
    launch(graph);
    return begin(ready, arguments, SubmissionSlot::Counts::kWhole);
  }

  // A submission that was refused has not started.
  bool has_written_states() const override {
    slot_->finish();
    return has_begun_ && host_->has_written_states();
  }

  bool runs_beside_host() const override { return slot_->has_thread(); }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    auto& ready = static_cast<TpuExecutable&>(executable);
    slot_->wait();
    count_download(target.size());
    host_->read_output(*ready.host(), index, target);
  }

  void note(HostEvent event, int64_t times) override {
    switch (event) {
      case HostEvent::kStepMark: metrics_.count(Counter::kMarkStep, times); return cut();
      case HostEvent::kScalarRead:
        metrics_.count(Counter::kLocalScalarDense, times);
        scalar_reads_ += times;
        return;
      case HostEvent::kFigureRead: metrics_.count(Counter::kLocalScalarDense, times); return cut();
      case HostEvent::kStateUse: return cut();
      case HostEvent::kRecording: return operations_.begin_recording();
    }
  }

  void wait(Ticket) override { slot_->lock(); }
  void synchronize() override { slot_->lock(); }
  size_t temporary_bytes() const override {
    slot_->finish();
    return host_->temporary_bytes();
  }
  void release_temporary() override {
    slot_->wait();
    host_->release_temporary();
  }

  StateTensors set_state_tensors(StateTensors tensors) override {
    return std::exchange(state_tensors_, std::move(tensors));
  }
  const std::deque<Graph>& graphs() const override { return graphs_.cache().compiled(); }
  MetricsSnapshot metrics() const override {
    slot_->finish();
    return metrics_.snapshot();
  }
  std::vector<std::string> analysis() const override {
    if (options_.eager) return eager_analysis_of(graphs_.cache().compiled(), batches_, operations_.figures());
    return analysis_of(graphs_.cache().compiled(), {.batches = batches_, .reads = scalar_reads_});
  }
  void set_listener(CompileListener& listener) override { listener_ = &listener; }
  std::vector<std::string> take_warnings() override { return warnings_.take(); }

 private:
  // Rewrites the Program so that the host computes with the device's numeric types.
  Program in_numbers_of_device(const Program& program) const {
    const Program typed = with_device_types(program, options_.hardware.types, options_.hardware.rounding);
    return with_matmul_precision(typed, options_.hardware.machine.precision);
  }

  void count_download(size_t bytes) { metrics_.add(Metric::kInboundData, static_cast<int64_t>(bytes)); }

  // `damage`: describes the damaged store entry of the graph; empty: no entry is damaged.
  std::shared_ptr<Executable> compiled_graph(const Program& program, const Program& graph, const std::string& damage) {
    const int64_t begin = monotonic_ns();
    const GraphIdentity identity{std::make_shared<const Program>(graph), {}, {}, {}};
    const ToldCompilation told(listener_, [&] { return what_of(identity); });
    std::shared_ptr<Executable> host = host_->compile(in_numbers_of_device(program));
    const LoweredGraph lowered(identity, state_tensors_);
    std::vector<std::string> warnings = lowered.check_memory(options_.hardware);
    Making making{.ns = monotonic_ns() - begin, .compiled = true, .damages = {}};
    if (!damage.empty()) making.damages.push_back(damage);
    if (stored_.is_on()) stored_.keep(program, graph, state_tensors_, {image_of(*host), warnings});
    warnings_.add(std::move(warnings));
    return std::make_shared<TpuExecutable>(std::move(host), making, program, graph);
  }

  std::shared_ptr<Executable> compiled_eagerly(const Program& program, const Program& graph) {
    const GraphIdentity identity{std::make_shared<const Program>(graph), {}, {}, {}};
    const ToldCompilation told(listener_, [&] { return fmt::format("the operations of {} nodes", graph.size()); });
    GraphForecast traced = check_eager_memory(identity, state_tensors_, options_.hardware);
    warnings_.add(std::move(traced.padding));
    const auto made =
        std::make_shared<TpuExecutable>(host_->compile(in_numbers_of_device(program)), Making(), program, graph);
    made->traced_seconds = traced.prediction.least_seconds;
    return made;
  }

  void check_range(const TpuExecutable& executable, const Arguments& arguments) {
    const SourceLines& lines = arguments.lines != nullptr ? *arguments.lines : executable.graph()->lines();
    warnings_.add(range_warnings_of_given(executable.given(), arguments.batch, lines, options_.hardware.types));
  }

  Ticket submit_eagerly(TpuExecutable& executable, const Arguments& arguments) {
    slot_->wait();
    const std::span<const OpTimes> host = op_times(*executable.host());
    const GraphIdentity identity = identity_of(executable, arguments);
    warnings_.add(range_warnings_of_numbers(identity, options_.hardware.types));
    operations_.begin(identity, executable.scalars(arguments), state_tensors_, executable.seen, host,
                      {.step = arguments.step, .reads = arguments.reads, .traced_seconds = executable.traced_seconds});
    try {
      const Ticket ticket = begin(executable, arguments, SubmissionSlot::Counts::kNothing);
      operations_.end(host);
      return ticket;
    } catch (const Error&) {
      operations_.end(host);
      throw;
    }
  }

  void tell_of_damage(const std::string& damage, const GraphKey& graph) {
    warnings_.add(fmt::format("tpu.persistent_cache: {}; graph {} is compiled anew", damage, graph.to_string()));
  }

  std::string what_of(const GraphIdentity& graph) const {
    const MissCause cause = graphs_.cache().cause_of(graph);
    const std::string place = cause.line.known() ? fmt::format(" ({})", cause.line.to_string()) : "";
    return fmt::format("a graph of {} nodes: {}{}", graph.program->size(), cause.text, place);
  }

  GraphIdentity identity_of(const TpuExecutable& executable, const Arguments& arguments) const {
    GraphIdentity identity = executable.identity(arguments, rules_);
    if (options_.dialect == Dialect::kClean) identity.absent.clear();
    return identity;
  }

  void launch(Graph& graph) {
    slot_->count_lock_wait();
    graphs_.launch(graph);
  }

  Ticket begin(const TpuExecutable& executable, const Arguments& arguments, SubmissionSlot::Counts counts) {
    has_begun_ = true;
    slot_->begin(executable.host(), arguments, counts, arguments.waits);
    return ++ticket_;
  }

  // The submission starts now; it is counted with everything else before the next step marker.
  Ticket submit_pending(TpuExecutable& executable, const Arguments& arguments) {
    if (uncut_.batch == 0) uncut_.batch = arguments.step;
    GraphIdentity part = identity_of(executable, arguments);
    for (TracedScalar& scalar : part.scalars) scalar.batch = batches_until(arguments.step);
    pending_.add(part);
    uncut_.making.add(executable.take_making());
    const Ticket ticket = begin(executable, arguments, SubmissionSlot::Counts::kPart);
    uncut_.batches = batches_until(arguments.step);
    if (uncut_.batches == kLongTrace) warn_of_growth();
    if (pending_.nodes() > kMostNodes) cut_what_is_too_long();
    return ticket;
  }

  // Batches of the trace since the last step marker.
  int64_t batches_until(int64_t step) const { return step - uncut_.batch + 1; }

  void cut_what_is_too_long() {
    if (!std::exchange(warned_of_length_, true)) {
      warnings_.add(fmt::format(
          "the graph of batches {} to {} has {} nodes, and is cut behind them: no graph grows beyond {} nodes; {}",
          uncut_.batch, uncut_.batch + uncut_.batches - 1, pending_.nodes(), kMostNodes,
          options_.batches_between_cuts > 0 ? "lower tpu.batches_per_execution" : kHowToCut));
    }
    warned_of_growth_ = true;  // the warning above gives the same advice
    cut();
  }

  void warn_of_growth() {
    if (options_.batches_between_cuts > 0 || std::exchange(warned_of_growth_, true)) return;
    warnings_.add(
        fmt::format("{} batches from {} on were traced without a cut, and the graph has {} nodes: it grows until "
                    "a step is marked; {}",
                    uncut_.batches, uncut_.batch, pending_.nodes(), kHowToCut));
  }

  void cut() {
    if (pending_.empty()) return;
    if (uncut_.batches > 1 && metrics_.value(Counter::kMarkStep) == 0) warn_of_growth();
    const Uncut parts = std::exchange(uncut_, {});
    GraphIdentity whole = pending_.take();
    whole.batches = parts.batches;
    launch(graph_of(std::move(whole), parts.batch, parts.making));
    slot_->end_parts();
  }

  Graph& graph_of(GraphIdentity identity, int64_t step, const Making& making) {
    const GraphKey key = key_of(identity);
    for (const std::string& damage : making.damages) tell_of_damage(damage, key);
    if (Graph* const known = graphs_.find(key, identity)) return *known;
    warnings_.add(range_warnings_of_numbers(identity, options_.hardware.types));
    ShownGraph shown = shown_graph(identity, state_tensors_);
    Graph graph =
        graphs_.described(key, std::move(identity), std::make_shared<const Program>(std::move(shown.program)), step);
    graph.accounts = std::move(shown.accounts);
    const int64_t begin = monotonic_ns() - making.ns;
    if (stored_.is_on() && is_in_store(graph, making, begin))
      return graphs_.add_stored(std::move(graph), monotonic_ns() - begin);
    graph.prediction = LoweredGraph(graph.identity, state_tensors_).predict(options_.hardware, graph.size.donated > 0);
    Graph& compiled = graphs_.add_compiled(std::move(graph), Metric::kCompileTime, begin);
    if (stored_.is_on()) stored_.keep(compiled.identity, state_tensors_, compiled.prediction);
    return compiled;
  }

  // Takes the prediction from the store. Counts like PyTorch/XLA: a damaged entry is not a miss.
  bool is_in_store(Graph& graph, const Making& making, int64_t begin_ns) {
    PersistentCache::Found<GraphPrediction> found;
    if (!making.compiled) found = stored_.find(graph.identity, state_tensors_);
    if (!found.damage.empty()) tell_of_damage(found.damage, graph.key);
    if (found.entry) {
      graph.prediction = std::move(*found.entry);
      return true;
    }
    graphs_.check_budget(graph, begin_ns);
    const bool damaged = !making.damages.empty() || !found.damage.empty();
    metrics_.count(damaged ? Counter::kPersistentCacheDeserializeFailure : Counter::kPersistentCacheMiss);
    return false;
  }

  const TpuOptions options_;
  const std::unique_ptr<Device> host_;
  DeviceMetrics metrics_{op_counter_names()};
  const std::unique_ptr<SubmissionSlot> slot_;
  Ticket ticket_ = 0;
  bool has_begun_ = false;  // whether the newest submission has started
  const ScalarRules rules_ = scalar_rules(options_.dialect, options_.hardware.types);
  GraphAccount graphs_{options_.hardware, rules_, metrics_, options_.max_graphs};
  EagerAccount operations_{options_.hardware, rules_, graphs_, metrics_};
  DeviceDataCache numbers_{rules_, options_.hardware.types};
  PersistentCache stored_;
  CompileListener* listener_ = nullptr;
  int64_t batches_ = 0, newest_step_ = 0;  // training batches
  int64_t scalar_reads_ = 0;               // values that a hook has read
  PendingTrace pending_{rules_};
  Uncut uncut_;
  bool warned_of_growth_ = false, warned_of_length_ = false;
  StateTensors state_tensors_;
  WarningList warnings_;
};

}  // namespace

std::unique_ptr<TpuDevice> make_tpu_device(const TpuOptions& options) {
  return std::make_unique<EmulatedTpu>(options);
}

}  // namespace runner::backends::tpu
