#include "runner/train/run.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <deque>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/kernels/kernel_choices.h"
#include "backends/runtime/cpu_features.h"
#include "runner/train/checkpoint.h"
#include "runner/train/evaluator.h"
#include "runner/train/recorder.h"
#include "runner/train/session.h"
#include "schema/error.h"
#include "store/queries.h"
#include "store/run_writer.h"

namespace runner::train {
namespace {

// Steps between two events of one kind; 0: never.
int64_t interval(const std::optional<schema::Length>& length, const optim::RunScale& scale) {
  return length ? std::max<int64_t>(1, optim::to_steps(*length, scale)) : 0;
}

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

store::Retention retention_of(const schema::CheckpointSpec& spec) {
  store::Retention retention{.keep_last = spec.keep_last, .keep_best = {}};
  if (spec.keep_best)
    retention.keep_best =
        store::Retention::Best{spec.keep_best->metric, spec.keep_best->maximize, spec.keep_best->count};
  return retention;
}

// A state that can be resumed from, and the warnings about newer ones that cannot.
struct Resumable {
  store::LoadedState state;
  std::vector<std::string> warnings;
};

Resumable newest_state(store::Store& store, const store::RunRow& run) {
  Resumable found;
  for (const store::StateInfo& info : store::list_states(store, run.id, true)) {
    try {
      found.state = store::load_state(store, info.id);
      return found;
    } catch (const Error& error) {
      found.warnings.push_back(fmt::format("{}; trying the state before it", error.message()));
    }
  }
  fail(ErrorKind::kNotFound, "run {} has no complete state to resume from", run.uid);
}

class Run {
 public:
  explicit Run(const RunRequest& request)
      : request_(request),
        recipe_(request.recipe),
        store_(store::Store::open(request.store, store::Access::kWrite)),
        session_(recipe_),
        log_every_(interval(recipe_.log.every, session_.scale)),
        save_every_(interval(recipe_.checkpoint.every, session_.scale)) {
    result_.name = recipe_.name;
    result_.backend = session_.device->name();
    result_.num_processes = recipe_.num_processes;
    const int64_t first_batch = session_.plan.slice(0, 0).size();
    session_.trainer.prepare({.batch = first_batch, .last = session_.plan.window(0).steps == 1});
    if (session_.data.eval) {
      evaluator_.emplace(session_.trainer, *session_.data.eval, recipe_);
      const schema::Length each_epoch{1, schema::Unit::kEpochs};
      evaluate_every_ = interval(recipe_.eval.every.value_or(each_epoch), session_.scale);
    }
  }

  RunResult execute() {
    request_.resume.empty() ? start() : resume();
    request_.observer.on_start(result_.run, result_.name);
    for (const std::string& text : session_.plan.warnings()) warn(text);
    try {
      train();
    } catch (const Error& error) {
      record_failure(error);
    }
    finish();
    return std::move(result_);
  }

 private:
  // ---- beginning ----------------------------------------------------------------------------------------------------

  store::AttemptInfo attempt_info() const {
    store::AttemptInfo info;
    info.recipe = request_.record;
    info.params = request_.params;
    info.backend = result_.backend;
    info.num_processes = recipe_.num_processes;
    info.cpu_features = backends::cpu_features().to_string();
    info.kernels_json = backends::kernel_choices_json();
    info.binary_version = request_.binary_version;
    return info;
  }

  void start() {
    store::RunInfo info{.uid = store::new_run_uid(),
                        .name = recipe_.name,
                        .seed = recipe_.seed,
                        .parent = {},
                        .attempt = attempt_info()};
    result_.run = info.uid;
    writer_.emplace(std::move(store_), std::move(info));
    recorder_.emplace(*writer_);
  }

  void resume() {
    const store::RunRow row = store::find_run(store_, request_.resume);
    const Resumable found = newest_state(store_, row);
    const RunState state = run_state_of(found.state);
    check_data(state, session_.train_fingerprint(), session_.eval_fingerprint());
    restore(found.state, session_.trainer);
    position_ = state.position;
    session_.schedule.restore(state.plateau);
    patience_ = state.patience;
    if (recipe_.train.early_stopping) stopped_early_ = patience_.evaluations >= recipe_.train.early_stopping->patience;

    store::AttemptInfo info = attempt_info();
    info.start_step = found.state.info.step;
    info.from_state = found.state.info.id;
    const store::RunHandle handle = store::begin_attempt(store_, row.uid, info);
    result_.run = row.uid;
    result_.name = row.name;
    const std::vector<store::MetricSummary> metrics = store::list_metrics(store_, row.id);
    writer_.emplace(std::move(store_), handle);
    recorder_.emplace(*writer_);
    for (const store::MetricSummary& metric : metrics)
      recorder_->resume(metric.name, {metric.last, metric.min, metric.max});
    saved_at_ = found.state.info.step;
    for (const std::string& text : found.warnings) warn(text);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  int64_t step() const { return session_.trainer.counters.windows; }
  bool finished() const { return step() >= session_.scale.total_steps || stopped_early_; }
  bool interrupted() const { return request_.stop.load(std::memory_order_relaxed) > 0; }

  void train() {
    data::Loader loader(session_.data.train, session_.plan,
                        {.shuffle = recipe_.data.shuffle,
                         .seed = session_.data_seed(),
                         .from = position_,
                         .prefetch = recipe_.data.prefetch});
    logged_at_ = std::chrono::steady_clock::now();
    while (!finished() && !interrupted()) {
      window(loader);
      if (result_.first_step_seconds == 0) result_.first_step_seconds = seconds_since_process_start();
      const bool last = finished();
      if (due(step(), log_every_) || last) log();
      if (due(step(), evaluate_every_) || (last && evaluator_)) evaluate();
      if (due(step(), save_every_) && !finished()) save("schedule");
      collect_saves(false);
      request_.observer.on_step(progress());
    }
    const bool done = finished();
    save_last(done ? "end" : "interrupt");
    result_.status = done ? store::RunStatus::kDone : store::RunStatus::kInterrupted;
    result_.exit_code = done ? 0 : exit_code(ErrorKind::kInterrupted);
  }

  void window(data::Loader& loader) {
    const int64_t applied = session_.trainer.counters.applied;
    const Trainer::WindowRates rates{session_.schedule.factor(applied), session_.schedule.momentum(applied)};
    const Trainer::Window window = session_.trainer.run_window(loader, rates);
    if (!window.finite) not_finite();
    position_ = window.next;
    lr_ = recipe_.optimizer.hyper.lr * rates.factor;
    grad_norm_ = window.grad_norm;
    samples_ += window.samples;
    if (request_.record_batches) recorder_->add(kBatchDigest, step(), static_cast<double>(window.batch_digest >> 11));
  }

  void not_finite() {
    const std::string what = session_.trainer.explain_not_finite();
    if (recipe_.train.on_nan == schema::OnNan::kSkip) {
      if (++result_.skipped_steps == 1) warn(fmt::format("step {} was skipped: {}", step(), what));
      return;
    }
    const int64_t failed = step();
    // The step did nothing, so what is on the device is the model before it: worth keeping.
    --session_.trainer.counters.windows;
    if (failed > 1) save("not finite");
    fail(ErrorKind::kRun,
         "the loss of step {} is not finite: {}; a smaller optimizer.lr or train.clip_grad_norm may help, "
         "train.on_nan: skip skips such steps",
         failed, what);
  }

  void log() {
    recorder_->add("train/loss", step(), session_.trainer.take_logged_loss());
    recorder_->add("train/lr", step(), lr_);
    if (recipe_.train.clip_grad_norm) recorder_->add("train/grad_norm", step(), grad_norm_);
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - logged_at_).count();
    recorder_->add("train/samples_per_s", step(), static_cast<double>(samples_ - logged_samples_) / seconds);
    logged_at_ = now;
    logged_samples_ = samples_;
  }

  void evaluate() {
    std::map<std::string, double> metrics;
    for (const auto& [name, value] : evaluator_->run()) metrics["eval/" + name] = value;
    for (const auto& [name, value] : metrics) recorder_->add(name, step(), value);
    if (recipe_.scheduler.type == schema::SchedulerType::kPlateau)
      session_.schedule.observe(recorder_->newest(recipe_.scheduler.metric));
    if (recipe_.train.early_stopping) check_patience(*recipe_.train.early_stopping);
    request_.observer.on_evaluation(progress(), metrics);
  }

  void check_patience(const schema::EarlyStopping& spec) {
    const double value = recorder_->newest(spec.metric);
    const double gain =
        spec.maximize ? value - patience_.best.value_or(-INFINITY) : patience_.best.value_or(INFINITY) - value;
    if (gain > spec.min_delta) {
      patience_ = {value, 0};
      return;
    }
    if (++patience_.evaluations < spec.patience) return;
    stopped_early_ = true;
    writer_->event(store::Level::kInfo, "early_stopping",
                   fmt::format(R"({{"step": {}, "metric": "{}", "evaluations": {}}})", step(), spec.metric,
                               patience_.evaluations));
  }

  Observer::Progress progress() const {
    return {.epoch = position_.epoch,
            .epochs = recipe_.train.epochs.value_or(0),
            .step = step(),
            .steps = session_.scale.total_steps,
            .samples = samples_,
            .loss = recorder_->newest("train/loss")};
  }

  // ---- states -------------------------------------------------------------------------------------------------------

  void save(const char* reason) {
    store::StateSnapshot snapshot = writer_->snapshot();
    capture(session_.trainer, run_state(), snapshot);
    snapshot.header = {.step = step(), .epoch = position_.epoch, .reason = reason, .pinned = false, .metrics = {}};
    for (const auto& [name, range] : recorder_->ranges()) snapshot.header.metrics.emplace_back(name, range.last);
    saves_.push_back(writer_->save_state(std::move(snapshot), retention_of(recipe_.checkpoint)));
    saved_at_ = step();
  }

  // The state that a run ends with is waited for; without it the run cannot be called complete.
  void save_last(const char* reason) {
    if (saved_at_ != step()) save(reason);
    collect_saves(true);
  }

  RunState run_state() {
    return {.position = position_,
            .counters = session_.trainer.counters,
            .plateau = session_.schedule.plateau(),
            .patience = patience_,
            .encoding = session_.data.encoding,
            .train_data = session_.train_fingerprint(),
            .eval_data = session_.eval_fingerprint()};
  }

  // Takes in what became of the saves under way.  A failed one is a warning (of the writer), the newest one an Error if
  // it is the last of the run.
  void collect_saves(bool wait) {
    while (!saves_.empty()) {
      if (!wait && !saves_.front().ready()) break;
      const store::Outcome<store::StateInfo> save = saves_.front();
      saves_.pop_front();
      try {
        const store::StateInfo info = save.get();
        request_.observer.on_state(info.id, info.step, info.bytes);
      } catch (const Error&) {
        if (wait && saves_.empty()) throw;
      }
    }
    for (const std::string& text : writer_->take_warnings()) warn(text);
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void warn(const std::string& text) {
    result_.warnings.push_back(text);
    request_.observer.on_warning(text);
  }

  void record_failure(const Error& error) {
    result_.status = store::RunStatus::kFailed;
    result_.exit_code = error.kind() == ErrorKind::kStore ? exit_code(ErrorKind::kStore) : exit_code(ErrorKind::kRun);
    result_.error = RunError{error.message(), error.where().file, error.where().line};
    try {
      collect_saves(true);
    } catch (const Error& save_error) {
      warn(save_error.message());
    }
  }

  void finish() {
    const Counters& counters = session_.trainer.counters;
    result_.epochs = position_.epoch + (position_.step > 0);
    result_.optimizer_steps = counters.windows;
    result_.skipped_steps = counters.windows - counters.applied;
    result_.samples = counters.samples;
    result_.metrics = recorder_->ranges();
    result_.seconds = seconds_since_process_start();
    if (result_.skipped_steps > 0)
      warn(fmt::format("{} of {} steps were skipped: not finite", result_.skipped_steps, counters.windows));
    try {
      writer_->flush();
      const store::RunHandle handle = writer_->wait_until_recorded();
      store::Store store = store::Store::open(request_.store, store::Access::kRead);
      for (const store::StateInfo& info : store::list_states(store, handle.id))
        if (!info.superseded) result_.states.insert(result_.states.begin(), info.id);
      if (const int64_t dropped = writer_->counters().dropped; dropped > 0)
        warn(fmt::format("{} metric points were dropped: the store could not keep up", dropped));
      writer_->finish({.status = result_.status,
                       .exit_code = result_.exit_code,
                       .reason = result_.error ? result_.error->message : "",
                       .summary_json = request_.summary(result_)});
    } catch (const Error& error) {
      result_.status = store::RunStatus::kFailed;
      result_.exit_code = exit_code(ErrorKind::kStore);
      if (!result_.error) result_.error = RunError{error.message(), error.where().file, error.where().line};
    }
  }

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  store::Store store_;  // until the writer has it
  Session session_;
  const int64_t log_every_, save_every_;
  int64_t evaluate_every_ = 0;
  std::optional<Evaluator> evaluator_;
  std::optional<store::RunWriter> writer_;
  std::optional<Recorder> recorder_;

  data::Position position_;
  Patience patience_;
  bool stopped_early_ = false;
  double lr_ = 0, grad_norm_ = 0;
  int64_t samples_ = 0, logged_samples_ = 0;  // since the process started
  std::chrono::steady_clock::time_point logged_at_;
  std::deque<store::Outcome<store::StateInfo>> saves_;
  int64_t saved_at_ = -1;
  RunResult result_;
};

}  // namespace

RunResult run(const RunRequest& request) {
  return Run(request).execute();
}

double seconds_since_process_start() {
  // Field 22 of /proc/self/stat: start time in clock ticks after boot; fields before it end with the last ')'.
  static const double started = [] {
    std::ifstream file("/proc/self/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    size_t at = text.rfind(')');
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
    return at == std::string::npos
               ? 0.0
               : std::strtod(text.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }();
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

}  // namespace runner::train
