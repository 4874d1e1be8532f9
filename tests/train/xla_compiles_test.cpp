// When the emulated TPU compiles, compared with torch_xla in the same training (tests/golden/xla/compiles.py).
#include <array>
#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/tpu/graph_text.h"
#include "backends/tpu/tpu_device_model.h"
#include "runner/lua/hook_file.h"
#include "runner/report/xla/metrics_report.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/train_loop.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/golden/golden.h"
#include "tests/support/temp_folder.h"
#include "tests/train/xla_steps.h"

namespace runner::train {
namespace {

using report::xla::MetricsReport;
using report::xla::report_of;
using testing::Golden;

// Counters of CompileTime and ExecuteTime, or those of operations that run eagerly.
using CompileCounts = std::array<int64_t, 2>;

std::string yaml_of(const Golden& value, const std::string& key) {
  if (key == "type") return value.text();
  if (key == "betas") return fmt::format("[{}, {}]", value.numbers()[0], value.numbers()[1]);
  if (key == "nesterov" || key == "amsgrad" || key == "centered") return value.flag() ? "true" : "false";
  const bool length = key == "length" || key == "warmup" || key == "every";
  return length ? fmt::format("{} steps", value.integer()) : fmt::format("{}", value.number());
}

std::string yaml_of(const Golden& section) {
  std::vector<std::string> entries;
  for (const std::string& key : section.keys())
    if (key != "warmup" || section[key].integer() > 0) entries.push_back(key + ": " + yaml_of(section[key], key));
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

// A hook's training loop does its own clipping.
std::string recipe_of(const Golden& item, const std::string& hook) {
  const auto flag = [&](const char* key) { return item.has(key) && item[key].flag(); };
  const int64_t samples = item["samples"].integer();
  const std::string data = "{format: synthetic, samples: " + std::to_string(samples) + ", features: [64], classes: 10}";
  std::string text = "schema_version: 1\nbackend: tpu\nnum_processes: 1\n";
  text += fmt::format("gradient_accumulation_steps: {}\n", item["accumulation"].integer());
  text += fmt::format("mixed_precision: {}\n", flag("bf16") ? "bf16" : "no");
  text += fmt::format("model: {{type: mlp, hidden: [32]{}}}\n",
                      item.has("dropout") ? fmt::format(", dropout: {}", item["dropout"].number()) : "");
  text +=
      fmt::format("data: {{batch_size: {}, drop_last: {}, train: {}", item["batch"].integer(), flag("drop_last"), data);
  // PyTorch/XLA does not fill up the last batch.
  text += flag("evaluate") ? ", eval: " + data + "}\neval: {pad_last: false}\n" : "}\n";
  text += item.has("rule") ? "optimizer: {type: hook}\n" : "optimizer: " + yaml_of(item["optimizer"]) + "\n";
  if (item.has("scheduler")) text += "scheduler: " + yaml_of(item["scheduler"]) + "\n";
  text += fmt::format("train: {{epochs: {}", item["epochs"].integer());
  for (const char* key : {"clip_grad_norm", "clip_grad_value"})
    if (item.has(key) && hook.find("train = ") == std::string::npos)
      text += fmt::format(", {}: {}", key, item[key].number());
  text += "}\n";
  if (item.has("batches_per_execution"))
    text += fmt::format("tpu: {{batches_per_execution: {}}}\n", item["batches_per_execution"].integer());
  if (item.has("begin")) text += "tpu: {eager: true}\n";
  if (item.has("loader")) text += "tpu: {auto_mark_step: false}\n";
  if (!hook.empty()) text += "hooks: hook.lua\n";
  return text;
}

// Requests of a hook's loop. `each` is called when the hook prints, after it has got a batch.
class LoopControl : public HookRun {
 public:
  explicit LoopControl(std::function<void()> each) : each_(std::move(each)) {}
  void print(std::string_view) override { each_(); }

 private:
  const std::function<void()> each_;
};

class CompilesTest : public ::testing::Test {
 protected:
  // Trains the case and compares after each batch. `hook`: empty for none.
  void train(const Golden& item, const std::string& hook) {
    begin(item, hook);
    for (int64_t epoch = 0; epoch < item["epochs"].integer(); ++epoch) {
      train_epoch(*session_, epoch);
      if (session_->data.eval) evaluate(*session_, hooks_.get());
    }
    if (item.has("begin"))
      return compare_eagerly(item, report_of(backends::tpu::model_of_tpu(*session_->device).metrics()));
    // A cut happens with the next batch, which the declared loop has not requested yet.
    const bool cuts_each = !item.has("batches_per_execution");
    compare(item, report_of(backends::tpu::model_of_tpu(*session_->device).metrics()),
            cuts_each ? 1 : session_->plan.steps_per_epoch());
  }

  // Likewise with a hook's training loop.
  void train_in_loop(const Golden& item, const std::string& hook) {
    begin(item, hook);
    LoopControl control([this] { steps_.push_back(counts(*session_)); });
    hooks_->attach(&control);
    const std::atomic<int> stop{0};
    TrainState state(*session_, hooks_.get(), stop);
    TrainLoop loop(state, {});
    EXPECT_TRUE(loop.run(std::nullopt));
    steps_.erase(steps_.begin());
    steps_.push_back(counts(*session_));
    compare(item, report_of(backends::tpu::model_of_tpu(*session_->device).metrics()));
  }

 private:
  void write(const std::string& file, const std::string& text) const { std::ofstream(folder_.path() / file) << text; }

  void begin(const Golden& item, const std::string& hook) {
    write("recipe.yaml", recipe_of(item, hook));
    write("hook.lua", hook);
    session_.reset();
    recipe_ = schema::read_recipe((folder_.path() / "recipe.yaml").string()).recipe;
    hooks_ = hook.empty() ? nullptr : lua::hooks_maker()(recipe_);
    session_.emplace(recipe_, hooks_.get());
    if (item.has("factors"))
      session_->schedule.set_function([factors = item["factors"].numbers()](int64_t step, int32_t) {
        return factors[std::min(static_cast<size_t>(step), factors.size() - 1)];
      });
    session_->trainer.allocate();
    steps_.clear();
    evaluations_.clear();
  }

  static CompileCounts counts(const Session& session) {
    const MetricsReport report = report_of(backends::tpu::model_of_tpu(*session.device).metrics());
    const std::string eager = session.recipe.tpu.eager ? "EagerOp" : "";
    return {report.samples(eager + "CompileTime"), report.samples(eager + "ExecuteTime")};
  }

  void train_epoch(Session& session, int64_t epoch) {
    data::Loader loader(session.data.train, session.plan,
                        {.from = {.epoch = epoch}, .epochs = epoch + 1, .prefetch = 0});
    BatchFeed batches = session.trainer.stepper().feed(loader);
    StepResult result;
    for (int64_t batch = 0; batch < session.plan.steps_per_epoch(); ++batch) {
      session.trainer.stepper().advance(batches, session.rates(), result);
      if (result.done) result = {};
      steps_.push_back(counts(session));
    }
    session.trainer.stepper().resolve(result);
  }

  void evaluate(Session& session, Hooks* hooks) {
    Evaluator(session.trainer, *session.data.eval, session.recipe, hooks).run();
    evaluations_.push_back(counts(session));
  }

  static std::vector<CompileCounts> expected(const Golden& rows) {
    std::vector<CompileCounts> all;
    for (const Golden& row : rows.items()) all.push_back({row.integers()[0], row.integers()[1]});
    return all;
  }

  // torch.optim.Adagrad creates its sums in its constructor, which is a graph of its own; here they are uploaded.
  static int64_t initial_graphs(const Golden& item) { return item["optimizer"]["type"].text() == "adagrad" ? 1 : 0; }

  // `each`: compares every n-th batch.
  void compare(const Golden& item, const MetricsReport& end, int64_t each = 1) const {
    const std::vector<CompileCounts> theirs = expected(item["steps"]);
    ASSERT_EQ(steps_.size(), theirs.size());
    for (const size_t what : {0, 1}) {
      const char* const name = what == 0 ? "compiles" : "executions";
      for (size_t step = static_cast<size_t>(each - 1); step < theirs.size(); step += static_cast<size_t>(each))
        EXPECT_EQ(steps_[step][what], theirs[step][what] - initial_graphs(item)) << name << " up to step " << step + 1;
      const std::vector<CompileCounts> evaluations =
          item.has("evaluations") ? expected(item["evaluations"]) : std::vector<CompileCounts>{};
      ASSERT_EQ(evaluations_.size(), evaluations.size());
      for (size_t i = 0; i < evaluations.size(); ++i)
        EXPECT_EQ(evaluations_[i][what], evaluations[i][what]) << name << " up to evaluation " << i + 1;
    }
    for (const char* counter : {"MarkStep", "aten::_local_scalar_dense"})
      EXPECT_EQ(end.counter(counter), item["counters"][counter].integer()) << counter;
    // Derivatives in PyTorch also pass numbers: that of a mean divides by the number of elements.
    const int64_t seed = item.has("dropout") ? 1 : 0;  // a number there, and part of the batch here
    if (!item.has("step") || item["step"].text() == "unused") {
      EXPECT_EQ(end.counter("DeviceDataCacheMiss") + seed, item["counters"]["DeviceDataCacheMiss"].integer());
    }
    EXPECT_EQ(end.counter("UncachedCompile"), end.samples("CompileTime"));
    EXPECT_EQ(end.counter("CachedCompile") + end.counter("UncachedCompile"), end.samples("ExecuteTime"));
    check_counts_of_texts(end);
  }

  // Differences between successive counts.
  static std::vector<CompileCounts> changes(const std::vector<CompileCounts>& counts) {
    std::vector<CompileCounts> all;
    for (size_t i = 0; i < counts.size(); ++i)
      all.push_back({counts[i][0] - (i > 0 ? counts[i - 1][0] : 0), counts[i][1] - (i > 0 ? counts[i - 1][1] : 0)});
    return all;
  }

  static int64_t moved(const Golden& row, const std::string& name) { return row.has(name) ? row[name].integer() : 0; }
  static int64_t moved_in_all(const Golden& item, const std::string& name) {
    int64_t sum = moved(item["begin"], name) + moved(item["end"], name);
    for (const char* rows : {"steps", "evaluations"})
      if (item.has(rows))
        for (const Golden& row : item[rows].items()) sum += moved(row, name);
    return sum;
  }

  // Operations are those of our graphs, which differ from PyTorch's. When some are compiled, and which steps have
  // equally many, does not depend on that.
  void compare_eagerly(const Golden& item, const MetricsReport& end) const {
    const std::vector<Golden> theirs = item["steps"].items();
    ASSERT_EQ(steps_.size(), theirs.size());
    const std::vector<CompileCounts> ours = changes(steps_);
    const auto epoch = static_cast<size_t>(session_->plan.steps_per_epoch());
    const bool evaluates = item.has("evaluations");
    for (size_t step = 0; step < ours.size() && !evaluates; ++step) {
      const bool they_compile = moved(theirs[step], "EagerOpCompileTime") > 0, we_compile = ours[step][0] > 0;
      if (step >= 2 || we_compile) {
        EXPECT_EQ(we_compile, they_compile) << "in step " << step + 1;
      }
      for (size_t other = epoch; other < step; ++other)
        if (moved(theirs[step], "EagerOpExecuteTime") == moved(theirs[other], "EagerOpExecuteTime")) {
          EXPECT_EQ(ours[step][1], ours[other][1]) << "operations of steps " << other + 1 << " and " << step + 1;
        }
    }
    for (size_t i = 1; i < evaluations_.size(); ++i) EXPECT_EQ(evaluations_[i][0], evaluations_[0][0]) << i;
    for (const char* counter : {"MarkStep", "aten::_local_scalar_dense"})
      EXPECT_EQ(end.counter(counter), moved_in_all(item, counter)) << counter;
    for (const char* metric : {"CompileTime", "ExecuteTime"}) {
      EXPECT_EQ(end.samples(metric), 0) << metric;
      EXPECT_EQ(moved_in_all(item, metric), 0) << metric;
    }
    check_identities([&](const char* name) { return moved_in_all(item, name); });
    check_identities(
        [&](const char* name) { return end.metric(name) != nullptr ? end.samples(name) : end.counter(name); });
  }

  template <class Count>
  static void check_identities(const Count& count) {
    EXPECT_GT(count("UncachedCompile"), 0);
    EXPECT_EQ(count("EagerOpCompileTime"), count("UncachedCompile"));
    EXPECT_EQ(count("CreateCompileHandles"), count("UncachedCompile"));
    for (const char* name : {"EagerOpExecuteTime", "ExecuteComputation", "TensorsGraphSize"})
      EXPECT_EQ(count(name), count("UncachedCompile") + count("CachedCompile")) << name;
  }

  // Every execution counts the operations in the text of its graph and uploads the batch. Numbers are uploaded whenever
  // they are missing, and parameters at the beginning.
  void check_counts_of_texts(const MetricsReport& end) const {
    std::map<std::string, int64_t> calls;
    int64_t uploads = 0, nodes = 0;
    for (const backends::tpu::Graph& graph : backends::tpu::model_of_tpu(*session_->device).graphs()) {
      const std::string ir = backends::tpu::ir_text(*graph.tensors);
      const std::regex call("(aten|xla)::(\\w+)\\(%"),
          batch("name=\"(features|labels|mask|\\w+_ids|\\w+_key|numbers)\"");
      for (std::sregex_iterator at(ir.begin(), ir.end(), call), none; at != none; ++at)
        calls["xla::" + at->str(2)] += graph.executions;
      uploads +=
          graph.executions * std::distance(std::sregex_iterator(ir.begin(), ir.end(), batch), std::sregex_iterator());
      nodes += graph.executions * graph.size.nodes;
    }
    for (const auto& [name, count] : calls) EXPECT_EQ(end.counter(name), count) << name;
    const auto* const sizes = end.metric("TensorsGraphSize");  // none if nothing has run
    EXPECT_EQ(sizes == nullptr ? 0 : sizes->accumulator, static_cast<double>(nodes));
    EXPECT_EQ(end.samples("OutboundData") - end.samples("TransferToDeviceTime"),
              uploads + end.counter("DeviceDataCacheMiss"));
  }

  const support::TempFolder folder_;
  schema::Recipe recipe_;
  std::unique_ptr<Hooks> hooks_;
  std::optional<Session> session_;
  std::vector<CompileCounts> steps_, evaluations_;
};

TEST_F(CompilesTest, MatchTorchXla) {
  for (const Golden& item : Golden::load("xla/compiles.json").cases()) {
    if (!xla::is_declared(item)) continue;
    SCOPED_TRACE(item.name());
    ASSERT_NO_THROW(train(item, xla::needs_hook(item) ? xla::step_hook(item) : ""));
  }
}

TEST_F(CompilesTest, MatchTorchXlasEagerMode) {
  for (const Golden& item : Golden::load("xla/eager.json").cases()) {
    SCOPED_TRACE(item.name());
    ASSERT_NO_THROW(train(item, xla::needs_hook(item) ? xla::step_hook(item) : ""));
  }
}

TEST_F(CompilesTest, MatchTorchXlaInAHooksTrainingLoop) {
  for (const Golden& item : Golden::load("xla/compiles.json").cases()) {
    if (item.has("evaluate")) continue;
    SCOPED_TRACE(item.name());
    ASSERT_NO_THROW(train_in_loop(item, xla::loop_hook(item)));
  }
}

}  // namespace
}  // namespace runner::train
