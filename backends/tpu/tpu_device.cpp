#include "backends/tpu/tpu_device.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "backends/cpu/cpu_device.h"
#include "backends/graph/needed.h"
#include "backends/graph/passes/passes.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/eager_account.h"
#include "backends/tpu/eager_forecast.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/pending_trace.h"
#include "backends/tpu/persistent_cache.h"
#include "backends/tpu/range_check.h"
#include "backends/tpu/run_analysis.h"
#include "backends/tpu/submission_slot.h"
#include "backends/tpu/tensor_graph.h"
#include "schema/error.h"

namespace runner::backends::tpu {
namespace {

// What it took to have something that the host runs.
struct Making {
  int64_t ns = 0;
  bool compiled = false;             // not all of it was in the store
  std::vector<std::string> damages;  // since the store had these damaged

  void add(const Making& other) {
    ns += other.ns;
    compiled |= other.compiled;
    damages.insert(damages.end(), other.damages.begin(), other.damages.end());
  }
};

// Of nodes that outputs are computed from, in order.
std::vector<Origin> live_origins(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<Origin> origins;
  for (ValueId id = 0; id < program.size(); ++id)
    if (needed[static_cast<size_t>(id)]) origins.push_back(program.node(id).origin);
  std::ranges::sort(origins);
  return origins;
}

// Of inputs that no node takes.
std::vector<Origin> idle_inputs(const Program& program) {
  std::vector<char> taken(static_cast<size_t>(program.size()), 0);
  for (ValueId id = 0; id < program.size(); ++id)
    for (const ValueId operand : program.operands(id)) taken[static_cast<size_t>(operand)] = 1;
  std::vector<Origin> idle;
  for (const Input& input : program.inputs())
    if (taken[static_cast<size_t>(input.value)] == 0) idle.push_back(program.node(input.value).origin);
  return idle;
}

// By scalar of a graph: which of the Program's it is; none: it is not among these.
std::vector<std::optional<size_t>> scalars_taken(const Program& graph, const Program& program) {
  std::vector<Origin> scalars;
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kScalar) scalars.push_back(program.node(input.value).origin);
  std::vector<std::optional<size_t>> taken;
  for (const Input& input : graph.inputs()) {
    if (input.kind != InputKind::kScalar) continue;
    const auto found = std::ranges::find(scalars, graph.node(input.value).origin);
    taken.push_back(found == scalars.end() ? std::nullopt
                                           : std::optional(static_cast<size_t>(found - scalars.begin())));
  }
  return taken;
}

// What the host computes, and the graph that it counts as; none: it is the engine's own affair.
class TpuExecutable : public Executable {
 public:
  explicit TpuExecutable(std::shared_ptr<Executable> host) : host_(std::move(host)) {}
  TpuExecutable(std::shared_ptr<Executable> host, const Making& making, const Program& program, const Program& graph)
      : host_(std::move(host)),
        making_(making),
        graph_(std::make_shared<const Program>(live_part(graph))),
        states_(states_read(*graph_)),
        origins_(live_origins(*graph_)),
        idle_(idle_inputs(graph)),
        scalars_(scalars_taken(*graph_, program)) {}

  size_t arena_bytes() const override { return host_->arena_bytes(); }
  int64_t flops() const override { return host_->flops(); }
  int64_t bytes() const override { return host_->bytes(); }

  const std::shared_ptr<Executable>& host() const { return host_; }
  bool is_graph() const { return graph_ != nullptr; }
  // Asked once, when it first runs.
  Making take_making() { return std::exchange(making_, {}); }

  std::shared_ptr<const Program> graph() const { return graph_; }
  const std::vector<int32_t>& states() const { return states_; }  // that the graph reads
  // Whether a result takes a number: one that stands in a node of it, or in no Program.
  bool takes(const TracedScalar& scalar) const {
    return scalar.origin == kNoOrigin || std::ranges::binary_search(origins_, scalar.origin);
  }
  // Whether the user's code hands it over: a rule of a hook may leave the rate alone.
  bool hands_over(const TracedScalar& scalar) const {
    return scalar.origin == kNoOrigin || std::ranges::find(idle_, scalar.origin) == idle_.end();
  }
  // By scalar of the graph its value; NaN: it is not known.
  std::vector<double> scalars(std::span<const double> values) const {
    std::vector<double> taken;
    for (const std::optional<size_t>& index : scalars_)
      taken.push_back(index ? values[*index] : std::numeric_limits<double>::quiet_NaN());
    return taken;
  }

  // Of a device that runs operations one by one.
  EagerAccount::Seen seen;
  double traced_seconds = 0;  // that the graph is predicted to take at least

 private:
  const std::shared_ptr<Executable> host_;
  Making making_;
  const std::shared_ptr<const Program> graph_;
  const std::vector<int32_t> states_;
  const std::vector<Origin> origins_;  // live_origins()
  const std::vector<Origin> idle_;
  const std::vector<std::optional<size_t>> scalars_;  // scalars_taken()
};

// Beyond these a trace that is not cut deserves a word, and is cut.
constexpr int64_t kLongTrace = 100;  // batches
constexpr std::string_view kHowToCut =
    "call acc:mark_step() behind each optimizer step, or leave out tpu.auto_mark_step: false";
constexpr int64_t kMostNodes = 100000;  // as PyTorch/XLA 1.7 trims its graphs

// What the host has done of a trace since the last cut.
struct Uncut {
  int64_t batch = 0, batches = 0;  // of training: the first, and how many
  Making making;
};

// Tells of a compilation, also of one that fails.
class ToldCompilation {
 public:
  // `listener`: null, or who is told.
  ToldCompilation(CompileListener* listener, std::function<std::string()> what) : listener_(listener) {
    if (listener_ != nullptr) listener_->begun(std::move(what));
  }
  ~ToldCompilation() {
    if (listener_ != nullptr) listener_->ended();
  }
  ToldCompilation(const ToldCompilation&) = delete;
  ToldCompilation& operator=(const ToldCompilation&) = delete;

 private:
  CompileListener* const listener_;
};

class EmulatedTpu : public TpuDevice {
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
    for (std::string& text : range_warnings(graph, options_.hardware.types)) add_warning(std::move(text));
    if (options_.eager) return compiled_eagerly(program, graph);
    const int64_t begin = monotonic_ns();
    PersistentCache::Found<PersistentCache::LoadedExecutable> found = stored_.find(program, graph, state_tensors_);
    if (!found.entry) return compiled_graph(program, graph, found.damage);
    for (std::string& text : found.entry->warnings) add_warning(std::move(text));
    const Making making{.ns = monotonic_ns() - begin, .compiled = false, .damages = {}};
    return std::make_shared<TpuExecutable>(std::move(found.entry->host), making, program, graph);
  }

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
    if (!ready.is_graph()) return begin(ready, arguments, SubmissionSlot::Counts::kNothing);
    if (arguments.step > 0 && std::exchange(newest_step_, arguments.step) != arguments.step) ++batches_;
    for (const TracedScalar& scalar : arguments.traced)
      if (ready.hands_over(scalar)) numbers_.upload(scalar, metrics_);
    if (options_.eager) return submit_eagerly(ready, arguments);
    if (options_.batches_between_cuts != 1 && !arguments.reads) return submit_pending(ready, arguments);
    GraphIdentity identity = pending_.read(identity_of(ready, arguments));
    if (identity.program != ready.graph()) identity.batches = batches_until(arguments.step);
    Graph& graph = graph_of(std::move(identity), arguments.step, ready.take_making());
    slot_->lock();
    count_launch(graph);
    return begin(ready, arguments, SubmissionSlot::Counts::kWhole);
  }

  bool runs_beside_host() const override { return slot_->has_thread(); }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    auto& ready = static_cast<TpuExecutable&>(executable);
    slot_->wait();
    count_download(target.size());
    host_->read_output(*ready.host(), index, target);
  }

  void note(HostEvent event, int64_t times) override {
    if (event == HostEvent::kStepMark) metrics_.count(Counter::kMarkStep, times);
    if (event == HostEvent::kScalarRead || event == HostEvent::kFigureRead)
      metrics_.count(Counter::kLocalScalarDense, times);
    if (event == HostEvent::kScalarRead) scalar_reads_ += times;
    if (event != HostEvent::kScalarRead) cut();
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
  const std::deque<Graph>& graphs() const override { return cache_.compiled(); }
  MetricsSnapshot metrics() const override {
    slot_->finish();
    return metrics_.snapshot();
  }
  std::vector<std::string> analysis() const override {
    if (options_.eager) return eager_analysis_of(cache_.compiled(), batches_, account_.figures());
    return analysis_of(cache_.compiled(), {.batches = batches_, .reads = scalar_reads_});
  }
  void set_listener(CompileListener& listener) override { listener_ = &listener; }
  std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }

 private:
  // What the host computes, so that it has the device's numbers.
  Program in_numbers_of_device(const Program& program) const {
    const Program typed = with_device_types(program, options_.hardware.types, options_.hardware.rounding);
    return with_matmul_precision(typed, options_.hardware.machine.precision);
  }

  void add_warning(std::string text) {
    if (given_.insert(text).second) warnings_.push_back(std::move(text));
  }

  void count_download(size_t bytes) { metrics_.add(Metric::kInboundData, static_cast<int64_t>(bytes)); }

  // `damage`: of the entry that the store has of it; empty: of none.
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
    for (std::string& text : warnings) add_warning(std::move(text));
    return std::make_shared<TpuExecutable>(std::move(host), making, program, graph);
  }

  std::shared_ptr<Executable> compiled_eagerly(const Program& program, const Program& graph) {
    const GraphIdentity identity{std::make_shared<const Program>(graph), {}, {}, {}};
    GraphForecast traced = check_eager_memory(identity, state_tensors_, options_.hardware);
    for (std::string& text : traced.padding) add_warning(std::move(text));
    const auto made =
        std::make_shared<TpuExecutable>(host_->compile(in_numbers_of_device(program)), Making(), program, graph);
    made->traced_seconds = traced.prediction.least_seconds;
    return made;
  }

  Ticket submit_eagerly(TpuExecutable& executable, const Arguments& arguments) {
    slot_->wait();
    account_.begin(identity_of(executable, arguments), executable.scalars(arguments.scalars), state_tensors_,
                   executable.seen, op_times(*executable.host()),
                   {.step = arguments.step, .reads = arguments.reads, .traced_seconds = executable.traced_seconds});
    const Ticket ticket = begin(executable, arguments, SubmissionSlot::Counts::kNothing);
    account_.end(op_times(*executable.host()));
    return ticket;
  }

  void tell_of_damage(const std::string& damage, const GraphKey& graph) {
    add_warning(fmt::format("tpu.persistent_cache: {}; graph {} is compiled anew", damage, graph.to_string()));
  }

  std::string what_of(const GraphIdentity& graph) const {
    const MissCause cause = cache_.cause_of(graph);
    const std::string place = cause.line.known() ? fmt::format(" ({})", cause.line.to_string()) : "";
    return fmt::format("a graph of {} nodes: {}{}", graph.program->size(), cause.text, place);
  }

  GraphIdentity identity_of(const TpuExecutable& executable, const Arguments& arguments) const {
    GraphIdentity identity{executable.graph(), {}, {}, {}};
    std::ranges::copy_if(arguments.traced, std::back_inserter(identity.scalars),
                         [&](const TracedScalar& scalar) { return executable.takes(scalar); });
    identity.signature = signature_of(identity.scalars, rules_);
    if (options_.dialect != Dialect::kClean)
      std::ranges::set_intersection(arguments.absent, executable.states(), std::back_inserter(identity.absent));
    return identity;
  }

  void count_launch(Graph& graph) {
    count(graph.work, metrics_);
    metrics_.add(Metric::kTensorsGraphSize, graph.size.nodes);
    slot_->count_lock_wait();
    metrics_.count(Counter::kExecuteComputation);
    ++graph.executions;
  }

  Ticket begin(const TpuExecutable& executable, const Arguments& arguments, SubmissionSlot::Counts counts) {
    slot_->begin(executable.host(), arguments, counts, arguments.waits);
    return ++ticket_;
  }

  // It begins now, and is counted with what else comes before the next cut.
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

  // Of the trace that is not cut.
  int64_t batches_until(int64_t step) const { return step - uncut_.batch + 1; }

  void cut_what_is_too_long() {
    if (!std::exchange(warned_of_length_, true)) {
      add_warning(fmt::format(
          "the graph of batches {} to {} has {} nodes, and is cut behind them: no graph grows beyond {} nodes; {}",
          uncut_.batch, uncut_.batch + uncut_.batches - 1, pending_.nodes(), kMostNodes,
          options_.batches_between_cuts > 0 ? "lower tpu.batches_per_execution" : kHowToCut));
    }
    warned_of_growth_ = true;  // which asks for the same
    cut();
  }

  void warn_of_growth() {
    if (options_.batches_between_cuts > 0 || std::exchange(warned_of_growth_, true)) return;
    add_warning(
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
    count_launch(graph_of(std::move(whole), parts.batch, parts.making));
    slot_->end_parts();
  }

  Graph& graph_of(GraphIdentity identity, int64_t step, const Making& making) {
    const GraphKey key = key_of(identity);
    for (const std::string& damage : making.damages) tell_of_damage(damage, key);
    if (Graph* const known = cache_.find(key, identity)) {
      metrics_.count(Counter::kCachedCompile);
      return *known;
    }
    for (std::string& text : range_warnings_of_numbers(identity, options_.hardware.types)) add_warning(std::move(text));
    Graph graph;
    graph.key = key;
    graph.identity = std::move(identity);
    graph.first_step = step;
    graph.tensors = std::make_shared<const Program>(tensor_graph(graph.identity, state_tensors_));
    graph.types = options_.hardware.types;
    graph.size = size_of(*graph.tensors);
    graph.work = traced_work(*graph.tensors, options_.hardware.types);
    if (stored_.is_on() && takes_from_store(graph, making)) return cache_.add(std::move(graph));
    metrics_.count(Counter::kUncachedCompile);
    return compiled(std::move(graph), making.ns);
  }

  // Counts as PyTorch/XLA does: what is found is a hit of both caches, what is damaged no miss.
  bool takes_from_store(Graph& graph, const Making& making) {
    const int64_t begin = monotonic_ns();
    PersistentCache::Found<GraphPrediction> found;
    if (!making.compiled) found = stored_.find(graph.identity, state_tensors_);
    if (!found.damage.empty()) tell_of_damage(found.damage, graph.key);
    if (!found.entry) {
      const bool damaged = !making.damages.empty() || !found.damage.empty();
      metrics_.count(damaged ? Counter::kPersistentCacheDeserializeFailure : Counter::kPersistentCacheMiss);
      return false;
    }
    graph.prediction = std::move(*found.entry);
    graph.kind = MissKind::kStored;
    graph.cause = "the persistent cache had it";
    metrics_.count(Counter::kCachedCompile);
    metrics_.count(Counter::kPersistentCacheHit);
    metrics_.add(Metric::kPersistentCacheLoad, making.ns + (monotonic_ns() - begin));
    return true;
  }

  // `host_ns`: what the host has spent on it.
  Graph& compiled(Graph graph, int64_t host_ns) {
    const int64_t begin = monotonic_ns();
    graph.prediction = LoweredGraph(graph.identity, state_tensors_).predict(options_.hardware, graph.size.donated > 0);
    Graph& kept = cache_.add(std::move(graph));
    check_budget(kept, metrics_.value(Counter::kUncachedCompile), options_.max_graphs);
    metrics_.count(Counter::kCreateCompileHandles);
    metrics_.add(Metric::kInputOutputAliasCount, kept.size.donated);
    kept.compile_ns = host_ns + (monotonic_ns() - begin);
    metrics_.add(Metric::kCompileTime, kept.compile_ns);
    if (stored_.is_on()) stored_.keep(kept.identity, state_tensors_, kept.prediction);
    return kept;
  }

  const TpuOptions options_;
  const std::unique_ptr<Device> host_;
  DeviceMetrics metrics_{op_counter_names()};
  const std::unique_ptr<SubmissionSlot> slot_;
  Ticket ticket_ = 0;
  const ScalarRules rules_ = scalar_rules(options_.dialect, options_.hardware.types);
  GraphCache cache_{rules_};
  EagerAccount account_{options_.hardware, rules_, cache_, metrics_, options_.max_graphs};
  DeviceDataCache numbers_{rules_, options_.hardware.types};
  PersistentCache stored_;
  CompileListener* listener_ = nullptr;
  int64_t batches_ = 0, newest_step_ = 0;  // of training
  int64_t scalar_reads_ = 0;               // of values out of what is under way
  PendingTrace pending_{rules_};
  Uncut uncut_;
  bool warned_of_growth_ = false, warned_of_length_ = false;
  StateTensors state_tensors_;
  std::set<std::string> given_;        // as warnings, ever
  std::vector<std::string> warnings_;  // that nobody has taken yet
};

}  // namespace

std::unique_ptr<TpuDevice> make_tpu_device(const TpuOptions& options) {
  return std::make_unique<EmulatedTpu>(options);
}

}  // namespace runner::backends::tpu
