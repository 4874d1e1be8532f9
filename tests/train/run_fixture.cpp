#include "tests/train/run_fixture.h"

#include "runner/train/run/checkpoint/restore.h"
#include "runner/train/run/rank_run.h"
#include "schema/recipe/recipe_identity.h"
#include "schema/recipe/recipe_reader.h"
#include "store/state_store.h"
#include "tests/support/bytes.h"

namespace runner::train {
namespace {

class StepObserver : public Observer {
 public:
  StepObserver(std::atomic<int>& stop, bool stop_at_start, const int64_t stop_after,
               const std::function<void(const RunProgress&)>& on_step, std::vector<std::string>* notices)
      : stop_(stop), stop_at_start_(stop_at_start), stop_after_(stop_after), on_step_(on_step), notices_(notices) {}

  void on_start(std::string_view, std::string_view) override {
    if (stop_at_start_) stop_ = 1;
  }

  void on_notice(std::string_view text) override {
    if (notices_ != nullptr) notices_->emplace_back(text);
  }

  void on_step(const RunProgress& progress) override {
    if (on_step_) on_step_(progress);
    if (stop_after_ > 0 && progress.step >= stop_after_) stop_ = 1;
  }

 private:
  std::atomic<int>& stop_;
  const bool stop_at_start_;
  const int64_t stop_after_;
  const std::function<void(const RunProgress&)>& on_step_;
  std::vector<std::string>* const notices_;
};

void follow(const RunRequest& of_rank_0, backends::ProcessGroup& ranks) {
  Observer quiet;
  run_rank({.recipe = of_rank_0.recipe,
            .make_hooks = of_rank_0.make_hooks,
            .observer = quiet,
            .stop = of_rank_0.stop,
            .data = of_rank_0.data,
            .own_thread = of_rank_0.own_thread},
           ranks);
}

RunResult run_on(const Transport& transport, const RunRequest& request) {
  RunResult result;
  transport(static_cast<int>(request.recipe.num_processes), [&](backends::ProcessGroup& ranks) {
    if (ranks.rank() == 0) {
      result = RankRun(request, &ranks).execute();
    } else {
      follow(request, ranks);
    }
  });
  return result;
}

}  // namespace

void RunFixture::write(const std::string& file, const std::string& text) const {
  support::write_text(path(file), text);
}

RunResult RunFixture::train(const std::string& recipe, const Options& options) {
  write("recipe.yaml", recipe);
  const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string(), options.overrides);
  std::atomic<int> own{0};
  std::atomic<int>& stop = options.stop != nullptr ? *options.stop : own;
  StepObserver observer(stop, options.stop_at_start, options.stop_after, options.on_step, options.notices);
  const ForkRequest fork{.run = options.fork,
                         .state = options.state,
                         .restart = options.restart,
                         .before = schema::read_recipe(path("recipe.yaml").string()).recipe};
  const RunRequest request{
      .recipe = read.recipe,
      .origin = {.resume = options.resume,
                 .fork = options.fork.empty() ? nullptr : &fork,
                 .longer = options.longer,
                 .other_batches = options.other_batches},
      .recording = {.store = path(options.store),
                    .summary = [](const RunResult&) { return std::string("{}"); },
                    .metrics_document = [](const backends::tpu::MetricsSnapshot&) { return std::string("{}"); },
                    .has_batch_digests = true},
      .rank_start = {.job = schema::resolved_json(read), .program = options.rank_program, .follow = follow},
      .make_hooks = options.make_hooks,
      .observer = observer,
      .stop = stop,
      .long_compile = options.long_compile,
      .own_thread = options.own_thread};
  return options.transport ? run_on(options.transport, request) : run(request);
}

std::vector<std::string> RunFixture::events(const std::string& level) const {
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  std::vector<std::string> texts;
  for (const store::EventRow& event : store::show_run(store, store::find_run(store, "@last")).events)
    if (event.level == level) texts.push_back(event.json);
  return texts;
}

std::map<std::string, std::vector<std::byte>> RunFixture::last_state(const std::string& file) const {
  store::Store store = store::Store::open(path(file), store::Access::kRead);
  const auto states = store::list_states(store, store::find_run(store, "@last").id, true);
  std::map<std::string, std::vector<std::byte>> sections;
  for (store::Section& section : store::load_state(store, states.at(0).id).sections)
    sections[section.name] = std::move(section.bytes);
  return sections;
}

support::Json RunFixture::last_document(const std::string& file) const {
  return support::Json::parse(support::text_of(last_state(file).at("run")));
}

std::vector<std::pair<int64_t, double>> RunFixture::points(const std::string& metric, const std::string& file) const {
  store::Store store = store::Store::open(path(file), store::Access::kRead);
  std::vector<std::pair<int64_t, double>> result;
  for (const store::Point& point : store::metric_points(store, store::find_run(store, "@last"), metric))
    result.emplace_back(point.step, point.value);
  return result;
}

}  // namespace runner::train
