#include "backends/tpu/tpu_device.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "backends/cpu/cpu_device.h"
#include "backends/runtime/spans.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/graph_size.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/pending_trace.h"
#include "backends/tpu/range_check.h"
#include "schema/error.h"

namespace runner::backends::tpu {
namespace {

// What the host computes, and the graph that it counts as; none: it is the engine's own affair.
class TpuExecutable : public Executable {
 public:
  TpuExecutable(std::shared_ptr<Executable> host, int64_t compile_ns)
      : host_(std::move(host)), compile_ns_(compile_ns) {}
  TpuExecutable(std::shared_ptr<Executable> host, int64_t compile_ns, const Program& graph)
      : host_(std::move(host)),
        compile_ns_(compile_ns),
        graph_(std::make_shared<const Program>(graph)),
        states_(states_read(*graph_)) {}

  size_t arena_bytes() const override { return host_->arena_bytes(); }
  int64_t flops() const override { return host_->flops(); }
  int64_t bytes() const override { return host_->bytes(); }

  Executable& host() { return *host_; }
  bool is_graph() const { return graph_ != nullptr; }
  void add_compile_ns(int64_t ns) { compile_ns_ += ns; }
  // How long it took to make; asked once, when it first runs.
  int64_t take_compile_ns() { return std::exchange(compile_ns_, 0); }

  GraphIdentity identity(const Arguments& arguments) const {
    GraphIdentity identity{
        graph_, {arguments.traced.begin(), arguments.traced.end()}, signature_of(arguments.traced), {}};
    std::ranges::set_intersection(arguments.absent, states_, std::back_inserter(identity.absent));
    return identity;
  }

 private:
  const std::shared_ptr<Executable> host_;
  int64_t compile_ns_;
  const std::shared_ptr<const Program> graph_;
  const std::vector<int32_t> states_;  // that the graph reads
};

// Beyond these a trace that is not cut deserves a word, and is cut.
constexpr int64_t kLongTrace = 100;     // batches
constexpr int64_t kMostNodes = 100000;  // as PyTorch/XLA 1.7 trims its graphs

// What the host has done of a trace since the last cut.
struct Uncut {
  int64_t batch = 0, batches = 0;  // of training: the first, and how many
  int64_t compile_ns = 0, execute_ns = 0;
};

class EmulatedTpu : public TpuDevice {
 public:
  explicit EmulatedTpu(const TpuOptions& options) : options_(options), host_(make_cpu_device(options.threads)) {}

  std::string_view name() const override { return "tpu"; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return host_->allocate(bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return host_->wrap(std::move(memory), bytes);
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    const TimedSection section(metrics_, Metric::kTransferToDeviceTime);
    metrics_.add(Metric::kOutboundData, static_cast<int64_t>(source.size()));
    host_->write(buffer, offset, source);
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    count_download(target.size());
    const TimedSection section(metrics_, Metric::kTransferFromDeviceTime);
    host_->read(buffer, offset, target);
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<TpuExecutable>(host_->compile(in_numbers_of_device(program)), 0);
  }

  std::shared_ptr<Executable> compile_graph(const Program& program, const Program& graph) override {
    if (!options_.keeps_account) return compile(program);
    for (std::string& text : range_warnings(graph, options_.hardware.types)) add_warning(std::move(text));
    const int64_t begin = monotonic_ns();
    auto executable = std::make_shared<TpuExecutable>(host_->compile(in_numbers_of_device(program)), 0, graph);
    const LoweredGraph lowered(executable->identity({}), state_tensors_);
    for (std::string& text : lowered.check_memory(options_.hardware)) add_warning(std::move(text));
    executable->add_compile_ns(monotonic_ns() - begin);
    return executable;
  }

  bool keeps_graphs() const override { return options_.keeps_account; }

  GraphForecast forecast(const Program& graph) const override {
    return LoweredGraph(
               {.program = std::make_shared<const Program>(graph), .scalars = {}, .signature = {}, .absent = {}},
               state_tensors_)
        .forecast(options_.hardware);
  }

  Ticket submit(Executable& executable, const Arguments& arguments) override {
    auto& ready = static_cast<TpuExecutable&>(executable);
    if (!ready.is_graph()) return host_->submit(ready.host(), arguments);
    if (options_.batches_between_cuts != 1 && !arguments.reads) return submit_pending(ready, arguments);
    count_launch(graph_of(pending_.read(ready.identity(arguments)), arguments.step, ready.take_compile_ns()));
    const TimedSection section(metrics_, Metric::kExecuteTime);
    return host_->submit(ready.host(), arguments);
  }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    auto& ready = static_cast<TpuExecutable&>(executable);
    if (ready.is_graph()) count_download(target.size());
    host_->read_output(ready.host(), index, target);
  }

  void note(HostEvent event, int64_t times) override {
    if (event == HostEvent::kStepMark) metrics_.count(Counter::kMarkStep, times);
    if (event == HostEvent::kScalarRead || event == HostEvent::kFigureRead)
      metrics_.count(Counter::kLocalScalarDense, times);
    if (event != HostEvent::kScalarRead) cut();
  }

  void wait(Ticket ticket) override { host_->wait(ticket); }
  void synchronize() override { host_->synchronize(); }
  size_t temporary_bytes() const override { return host_->temporary_bytes(); }
  void release_temporary() override { host_->release_temporary(); }

  void set_state_tensors(std::vector<std::vector<TensorType>> tensors) override { state_tensors_ = std::move(tensors); }
  const std::deque<Graph>& graphs() const override { return cache_.compiled(); }
  MetricsSnapshot metrics() const override { return metrics_.snapshot(); }
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

  void count_launch(Graph& graph) {
    metrics_.add(Metric::kTensorsGraphSize, graph.size.nodes);
    metrics_.add(Metric::kDeviceLockWait, 0);  // what ran before is done
    metrics_.count(Counter::kExecuteComputation);
    ++graph.executions;
  }

  // The host computes it now; it is counted with what else comes before the next cut.
  Ticket submit_pending(TpuExecutable& executable, const Arguments& arguments) {
    pending_.add(executable.identity(arguments));
    if (uncut_.batch == 0) uncut_.batch = arguments.step;
    uncut_.compile_ns += executable.take_compile_ns();
    const int64_t begin = monotonic_ns();
    const Ticket ticket = host_->submit(executable.host(), arguments);
    uncut_.execute_ns += monotonic_ns() - begin;
    uncut_.batches = arguments.step - uncut_.batch + 1;
    if (uncut_.batches == kLongTrace) warn_of_growth();
    if (pending_.nodes() > kMostNodes) cut();
    return ticket;
  }

  void warn_of_growth() {
    if (options_.batches_between_cuts > 0 || std::exchange(warned_of_growth_, true)) return;
    add_warning(
        fmt::format("{} batches from {} on were traced without a cut, and the graph has {} nodes: it grows until "
                    "acc:mark_step() is "
                    "called; call it behind each optimizer step, or leave out tpu.auto_mark_step: false",
                    uncut_.batches, uncut_.batch, pending_.nodes()));
  }

  void cut() {
    if (pending_.empty()) return;
    if (uncut_.batches > 1 && metrics_.value(Counter::kMarkStep) == 0) warn_of_growth();
    const Uncut parts = std::exchange(uncut_, {});
    count_launch(graph_of(pending_.take(), parts.batch, parts.compile_ns));
    metrics_.add(Metric::kExecuteTime, parts.execute_ns);
  }

  Graph& graph_of(GraphIdentity identity, int64_t step, int64_t compile_ns) {
    const GraphKey key = key_of(identity);
    if (Graph* const known = cache_.find(key, identity)) {
      metrics_.count(Counter::kCachedCompile);
      return *known;
    }
    metrics_.count(Counter::kUncachedCompile);
    return compiled(key, std::move(identity), step, compile_ns);
  }

  Graph& compiled(const GraphKey& key, GraphIdentity identity, int64_t step, int64_t host_ns) {
    const int64_t begin = monotonic_ns();
    Graph graph;
    graph.key = key;
    graph.identity = std::move(identity);
    graph.first_step = step;
    graph.size = size_of_graph(graph.identity, state_tensors_);
    graph.prediction = LoweredGraph(graph.identity, state_tensors_).predict(options_.hardware, graph.size.donated > 0);
    Graph& kept = cache_.add(std::move(graph));
    check_budget(kept);
    metrics_.count(Counter::kCreateCompileHandles);
    metrics_.add(Metric::kInputOutputAliasCount, kept.size.donated);
    kept.compile_ns = host_ns + (monotonic_ns() - begin);
    metrics_.add(Metric::kCompileTime, kept.compile_ns);
    return kept;
  }

  void check_budget(const Graph& newest) const {
    const auto graphs = static_cast<int64_t>(cache_.compiled().size());
    if (!options_.max_graphs || graphs <= *options_.max_graphs) return;
    throw Error(ErrorKind::kRun,
                fmt::format("training batch {} needs graph {}, and tpu.max_graphs is {}: {}", newest.first_step, graphs,
                            *options_.max_graphs, newest.cause),
                newest.line);
  }

  const TpuOptions options_;
  const std::unique_ptr<Device> host_;
  DeviceMetrics metrics_;
  GraphCache cache_;
  PendingTrace pending_;
  Uncut uncut_;
  bool warned_of_growth_ = false;
  std::vector<std::vector<TensorType>> state_tensors_;
  std::set<std::string> given_;        // as warnings, ever
  std::vector<std::string> warnings_;  // that nobody has taken yet
};

}  // namespace

std::unique_ptr<TpuDevice> make_tpu_device(const TpuOptions& options) {
  return std::make_unique<EmulatedTpu>(options);
}

}  // namespace runner::backends::tpu
