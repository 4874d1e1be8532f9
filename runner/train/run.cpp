#include "runner/train/run.h"

#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/kernels/kernel_choices.h"
#include "backends/runtime/cpu_features.h"
#include "runner/train/checkpoint.h"
#include "runner/train/custom_loop.h"
#include "runner/train/evaluator.h"
#include "runner/train/forking.h"
#include "runner/train/provenance_keeper.h"
#include "runner/train/recorder.h"
#include "runner/train/resuming.h"
#include "runner/train/session.h"
#include "runner/train/state_keeper.h"
#include "schema/error.h"
#include "schema/json.h"
#include "store/process.h"
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

RunError run_error(const Error& error) {
  return {error.message(), error.where().file, error.where().line, error.what()};
}

class Run : private RunControl, private LoopHost {
 public:
  explicit Run(const RunRequest& request)
      : request_(request),
        recipe_(request.recipe),
        hooks_(request.make_hooks != nullptr ? request.make_hooks(recipe_) : nullptr),
        session_(recipe_, hooks_.get()),
        log_every_(interval(recipe_.log.every, session_.scale)),
        save_every_(interval(recipe_.checkpoint.every, session_.scale)),
        provenance_(request, hooks_.get()) {
    result_.name = recipe_.name;
    result_.backend = session_.device->name();
    result_.num_processes = recipe_.num_processes;
    if (hooks_) hooks_->attach(this);
    const int64_t first_batch = session_.plan.slice(0, 0).size();
    session_.trainer.allocate();
    session_.trainer.prepare({.batch = first_batch, .last = session_.plan.window(0).steps == 1});
    if (session_.data.eval) {
      evaluator_.emplace(session_.trainer, *session_.data.eval, recipe_, hooks_.get());
      const schema::Length each_epoch{1, schema::Unit::kEpochs};
      evaluate_every_ = interval(recipe_.eval.every.value_or(each_epoch), session_.scale);
    }
  }

  RunResult execute() {
    // Opened, and made where it is missing, only when recipe and data are known to be good.
    store::Store store = store::Store::open(request_.store, store::Access::kWrite);
    request_.fork != nullptr  ? fork(std::move(store), *request_.fork)
    : request_.resume.empty() ? start(std::move(store))
                              : resume(std::move(store));
    request_.observer.on_start(result_.run, result_.name);
    for (const std::string& text : request_.warnings) warn(text);
    for (const std::string& text : session_.data.warnings) warn(text);
    for (const std::string& text : session_.plan.warnings()) warn(text);
    if (session_.data.encoding.label_kind == data::LabelKind::kClass && session_.data.encoding.outputs == 1)
      warn("all labels are of one class: there is nothing to learn");
    try {
      train();
    } catch (const Error& error) {
      record_failure(error);
    } catch (const std::bad_alloc&) {
      record_failure(Error(ErrorKind::kRun, "out of memory; a smaller data.batch_size or model may help"));
    } catch (const std::exception& error) {
      record_failure(Error(ErrorKind::kRun, error.what()));
    }
    if (tracked()) end_tracking();
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
    info.planned_steps = session_.scale.total_steps;
    info.cpu_features = backends::cpu_features().to_string();
    info.kernels_json = backends::kernel_choices_json();
    info.binary_version = request_.binary_version;
    info.provenance = provenance_.known();
    return info;
  }

  store::RunInfo new_run() const {
    return {.uid = store::new_run_uid(),
            .name = recipe_.name,
            .seed = recipe_.seed,
            .parent = {},
            .attempt = attempt_info()};
  }

  void start(store::Store store) {
    store::RunInfo info = new_run();
    result_.run = info.uid;
    begin_recording(std::move(store), std::move(info));
  }

  void fork(store::Store store, const ForkRequest& request) {
    const store::RunRow parent = store::find_run(store, request.run);
    const Forked found = restore_fork(store, parent, request, session_);
    go_on_from(found.state);
    store::RunInfo info = new_run();
    info.parent = parent.uid;
    info.attempt.start_step = step();
    info.attempt.from_state = found.info.id;
    result_.run = info.uid;
    begin_recording(std::move(store), std::move(info));
    for (const std::string& text : found.warnings) warn(text);
  }

  // What restoring a state leaves to the loop.
  void go_on_from(const RunState& state) {
    position_ = state.position;
    patience_ = state.patience;
    session_.trainer.set_metrics(state.metrics);
    if (hooks_ && !state.hook.empty()) hooks_->restore(state.hook);
  }

  // `run`: a new RunInfo or the handle of a claimed run.
  template <class RunOf>
  void begin_recording(store::Store store, RunOf run) {
    writer_.emplace(std::move(store), std::move(run));
    recorder_.emplace(*writer_);
    keeper_.emplace(*writer_, recipe_.checkpoint);
  }

  void resume(store::Store store) {
    const store::RunRow row = store::find_run(store, request_.resume);
    const Resumed found = restore_newest(store, row, session_);
    go_on_from(found.state);
    if (recipe_.train.early_stopping) stopped_early_ = patience_.evaluations >= recipe_.train.early_stopping->patience;

    store::AttemptInfo info = attempt_info();
    info.start_step = found.info.step;
    info.from_state = found.info.id;
    const store::RunHandle handle = store::begin_attempt(store, row.uid, info);
    result_.run = row.uid;
    result_.name = row.name;
    const std::vector<store::MetricSummary> metrics = store::list_metrics(store, row.id);
    const std::vector<store::StateInfo> states = store::list_states(store, row.id, /*for_resume=*/true);
    begin_recording(std::move(store), handle);
    for (const store::MetricSummary& metric : metrics)
      recorder_->resume(metric.name, {metric.last, metric.min, metric.max});
    keeper_->resume(found.info.step, states);
    for (const std::string& text : found.warnings) warn(text);
    if (!request_.longer) return;
    if (const auto text = stretched_schedule(session_, metrics)) warn(*text);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  int64_t step() const override { return session_.trainer.counters.windows; }
  bool finished() const override { return step() >= session_.scale.total_steps || stopped_early_ || stopped_by_hook_; }
  bool interrupted() const override { return request_.stop.load(std::memory_order_relaxed) > 0; }

  // From the next batch on.
  data::LoaderSpec loader_spec() const override {
    return {.shuffle = recipe_.data.shuffle,
            .seed = session_.data_seed(),
            .from = position_,
            .prefetch = recipe_.data.prefetch,
            .transform = hooks_ ? hooks_->transform() : nullptr};
  }

  void train() {
    logged_at_ = std::chrono::steady_clock::now();
    if (tracked()) hooks_->track_begin();
    on(HookEvent::kRunBegin);
    const bool by_hook = has(hooks_.get(), HookEntry::kTrain);
    by_hook ? CustomLoop(session_, *hooks_, *this).run() : declared_loop();
    const bool done = finished() || (by_hook && !interrupted());
    save(done ? "end" : "interrupt");
    keeper_->wait();
    if (done) on(HookEvent::kRunEnd);  // what it changes is in no state: a longer run goes on as if it had not ended
    result_.status = done ? store::RunStatus::kDone : store::RunStatus::kInterrupted;
    result_.exit_code = done ? 0 : exit_code(ErrorKind::kInterrupted);
  }

  void declared_loop() {
    data::Loader loader(session_.data.train, session_.plan, loader_spec());
    while (!finished() && !interrupted()) {
      begin_window();
      const int64_t scheduled = session_.trainer.counters.scheduled;
      const Trainer::WindowRates rates{session_.schedule.factor(scheduled), session_.schedule.momentum(scheduled)};
      const Trainer::Window window = session_.trainer.run_window(loader, rates);
      if (!window.finite) not_finite(explain_not_finite(), /*untouched=*/true);
      after_window(window, recipe_.optimizer.hyper.lr * rates.factor);
    }
  }

  void begin_window() override {
    settle();
    if (position_.step == 0) on(HookEvent::kEpochBegin);
  }

  void after_window(const Trainer::Window& window, double lr) {
    newly_evaluated_ = false;
    position_ = window.next;
    lr_ = lr;
    grad_norm_ = window.grad_norm;
    samples_ += window.samples;
    if (request_.record_batches) recorder_->add(kBatchDigest, step(), static_cast<double>(window.batch_digest >> 11));
    if (!result_.first_step_seconds) {
      result_.first_step_seconds = seconds_since_process_start();
      provenance_.complete(*writer_);
    }
    const bool logged = due(step(), log_every_) || finished();
    if (logged) log();
    if (evaluator_ && (due(step(), evaluate_every_) || finished())) evaluate();
    on(HookEvent::kStepEnd);
    if (position_.step == 0) on(HookEvent::kEpochEnd);
    if ((stopped_early_ || stopped_by_hook_) && !logged) log();
    if (tracked()) track();
    const char* const reason = reason_to_save();
    if (has(hooks_.get(), HookEntry::kTrain)) {
      if (due_state_ == nullptr) due_state_ = reason;
    } else if (reason != nullptr) {
      save(reason);
    }
    keeper_->collect();
    pass_on_warnings();
    request_.observer.on_step(progress());
  }

  bool tracked() const { return has(hooks_.get(), HookEntry::kTrackers); }
  void track() {
    const std::map<std::string, double> points = recorder_->at(step());
    if (!points.empty()) hooks_->track(points, step());
  }

  // Trackers hear of a failure as well, and a failure of theirs is one of the run.
  void end_tracking() {
    try {
      hooks_->track_end(to_string(result_.status));
    } catch (const Error& error) {
      if (!result_.error) record_failure(error);
    }
  }

  // Null: none.  The last state of a run is saved by train().
  const char* reason_to_save() {
    if (finished()) return nullptr;
    if (std::exchange(save_wanted_, false)) return "hook";
    if (due(step(), save_every_)) return "schedule";
    return newly_evaluated_ && keeper_->is_among_best(recorder_->at(step())) ? "best" : nullptr;
  }

  // What was not finite first in the window that begins at position_; found for the first such window, it takes a
  // while.
  const NotFinite& explain_not_finite() {
    if (not_finite_) return *not_finite_;
    data::LoaderSpec spec = loader_spec();
    spec.prefetch = 0;
    data::Loader again(session_.data.train, session_.plan, spec);
    return not_finite_.emplace(session_.trainer.explain_not_finite(again));
  }

  void not_finite(const NotFinite& found, bool untouched) override {
    if (recipe_.train.on_nan == schema::OnNan::kSkip) {
      if (++result_.skipped_steps == 1)
        warn(fmt::format("step {} was skipped: {}", step() + has(hooks_.get(), HookEntry::kTrain), found.what));
      return;
    }
    const int64_t failed = step() + 1;
    // A step that did nothing leaves the model before it on the device: worth keeping, if it is finite itself.
    try {
      if (step() > 0 && untouched) save("not finite");
    } catch (const Error&) {  // `found` says it
    }
    fail(ErrorKind::kRun, "the loss of step {} is not finite: {}; {}", failed, found.what, remedy_of(found));
  }

  // What the optimizer has done is to blame only if it has done something.
  std::string remedy_of(const NotFinite& found) const {
    const bool stepped = session_.trainer.counters.applied > 0;
    if (found.source == NotFinite::Source::kParameter && !stepped) return "it came so from model.init_from";
    std::string skip = "train.on_nan: skip skips such steps";
    if (found.source == NotFinite::Source::kData || !stepped) return skip;
    return "a smaller optimizer.lr or train.clip_grad_norm may help, " + skip;
  }

  void log() {
    const double loss = session_.trainer.take_logged_loss();
    recorder_->add("train/loss", step(), loss);
    if (std::isnan(loss) && result_.skipped_steps == 0 && !std::exchange(warned_of_no_weight_, true))
      warn(
          fmt::format("train/loss of step {} is NaN: no sample since the point before it has a weight; "
                      "train.class_weights and train.ignore_index decide",
                      step()));
    recorder_->add("train/lr", step(), lr_);
    if (recipe_.train.clip_grad_norm) recorder_->add("train/grad_norm", step(), grad_norm_);
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - logged_at_).count();
    recorder_->add("train/samples_per_s", step(), static_cast<double>(samples_ - logged_samples_) / seconds);
    for (const auto& [name, sum] : session_.trainer.take_metrics())
      recorder_->add("train/" + name, step(), sum.sum / sum.weight);
    logged_at_ = now;
    logged_samples_ = samples_;
  }

  void evaluate() {
    std::map<std::string, double> metrics;
    for (const auto& [name, value] : evaluator_->run()) metrics["eval/" + name] = value;
    for (const auto& [name, value] : metrics) recorder_->add(name, step(), value);
    newly_evaluated_ = true;
    if (recipe_.scheduler.type == schema::SchedulerType::kPlateau)
      session_.schedule.observe(recorder_->newest(recipe_.scheduler.metric));
    if (recipe_.train.early_stopping) check_patience(*recipe_.train.early_stopping);
    request_.observer.on_evaluation(progress(), metrics);
    on(HookEvent::kEvaluation);
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
    writer_->event(
        store::Level::kInfo, "early_stopping",
        json::line(json::Object{{"step", step()}, {"metric", spec.metric}, {"evaluations", patience_.evaluations}}));
  }

  // ---- what a loop of the hook's asks for --------------------------------------------------------------------------

  data::Position position() const override { return position_; }
  void set_position(const data::Position& position) override { position_ = position; }
  void end_window(const Trainer::Window& window, double lr) override {
    session_.trainer.count(window);
    for (const auto& [name, value] : std::exchange(points_, {})) recorder_->add(name, step(), value);
    after_window(window, lr);
  }
  void point(const std::string& name, double value) override { points_[name] = value; }
  void save_soon() override { due_state_ = "hook"; }
  // What the hook does behind a window, at the end of an epoch, belongs to it: a state holds that as well.
  void settle() override {
    if (const char* const reason = std::exchange(due_state_, nullptr)) save(reason);
  }
  void check_state(std::optional<int64_t> state) override {
    keeper_->wait();
    writer_->wait_until_recorded();
    store::Store store = store::Store::open(request_.store, store::Access::kRead);
    const store::RunRow run = store::find_run(store, result_.run);
    for (const store::StateInfo& info : store::list_states(store, run.id, /*for_resume=*/true))
      if (!state || info.id == *state) return;
    fail(ErrorKind::kRun, "load_state: run {} has no {}", run.uid,
         state ? fmt::format("state {}", *state) : "state yet");
  }
  void load(std::optional<int64_t> state) override {
    keeper_->wait();
    writer_->wait_until_recorded();
    store::Store store = store::Store::open(request_.store, store::Access::kRead);
    const RunState found = restore_values(store, store::find_run(store, result_.run), state, session_);
    if (!found.hook.empty()) hooks_->restore(found.hook);
    keeper_->forget();
  }

  // ---- what hooks of events do --------------------------------------------------------------------------------------

  void on(HookEvent event) {
    if (hooks_ && hooks_->has(event)) hooks_->on(event);
  }

  std::string_view run() const override { return result_.run; }
  std::string_view name() const override { return result_.name; }
  int64_t epoch() const override { return position_.epoch; }
  int64_t steps() const override { return session_.scale.total_steps; }
  void save() override { save_wanted_ = true; }
  void stop() override { stopped_by_hook_ = true; }
  void print(std::string_view text) override { request_.observer.on_print(text); }
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) override {
    try {
      writer_->save_artifact({.name = name, .kind = std::string(kind), .meta = {}, .step = step()}, std::move(bytes))
          .get();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kStore) throw;  // the writer warns of those
    }
  }
  void save_model(const std::string& name) override { save_artifact(name, "model", model_bytes(session_.trainer)); }
  std::optional<double> metric(const std::string& name) const override {
    if (!recorder_) return std::nullopt;
    const double value = recorder_->newest(name);
    return std::isnan(value) ? std::nullopt : std::optional(value);
  }
  void log(const std::string& name, double value) override { recorder_->add(name, step(), value); }

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
    keeper_->save(session_.trainer,
                  {.position = position_,
                   .counters = session_.trainer.counters,
                   .plateau = session_.schedule.plateau(),
                   .patience = patience_,
                   .metrics = session_.trainer.metrics(),
                   .hook = hooks_ ? hooks_->state() : "",
                   .encoding = session_.data.encoding,
                   .train_data = session_.train_fingerprint(),
                   .eval_data = session_.eval_fingerprint()},
                  reason, recorder_->at(step()));
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void warn(const std::string& text) {
    result_.warnings.push_back(text);
    writer_->event(store::Level::kWarning, "warning", event_json(text));
    request_.observer.on_warning(text);
  }

  // Those of the writer thread.
  void pass_on_warnings() {
    for (const std::string& text : writer_->take_warnings()) warn(text);
  }

  std::string event_json(const std::string& text) const {
    return json::line(json::Object{{"step", step()}, {"text", text}});
  }

  void record_failure(const Error& error) {
    result_.status = store::RunStatus::kFailed;
    result_.exit_code = error.kind() == ErrorKind::kStore ? exit_code(ErrorKind::kStore) : exit_code(ErrorKind::kRun);
    result_.error = run_error(error);
    writer_->event(store::Level::kError, "failure", event_json(error.message()));
    try {
      keeper_->wait();
    } catch (const Error&) {  // the writer warns
    }
  }

  void finish() {
    const Counters& counters = session_.trainer.counters;
    result_.epochs = position_.epoch + (position_.step > 0);
    result_.optimizer_steps = counters.windows;
    result_.skipped_steps = counters.windows - counters.applied;
    result_.samples = counters.samples;
    result_.metrics = recorder_->ranges();
    if (stopped_early_)
      result_.reason = fmt::format("stopped early: {} has not improved for {} evaluations",
                                   recipe_.train.early_stopping->metric, patience_.evaluations);
    if (stopped_by_hook_) result_.reason = fmt::format("stopped by the hook at step {}", step());
    if (result_.error) result_.reason = result_.error->message;
    result_.seconds = seconds_since_process_start();
    if (result_.skipped_steps > 0)
      warn(fmt::format("{} of {} steps were skipped: not finite", result_.skipped_steps, counters.windows));
    provenance_.finish(*writer_);
    try {
      writer_->flush();
      pass_on_warnings();
      list_states();
      writer_->finish(run_end());
    } catch (const Error& error) {
      pass_on_warnings();
      give_up(error);
    }
  }

  void list_states() {
    const store::RunHandle handle = writer_->wait_until_recorded();
    store::Store store = store::Store::open(request_.store, store::Access::kRead);
    result_.states.clear();
    for (const store::StateInfo& info : store::list_states(store, handle.id))
      if (!info.superseded) result_.states.insert(result_.states.begin(), info.id);
  }

  store::RunEnd run_end() {
    return {.status = result_.status,
            .exit_code = result_.exit_code,
            .reason = result_.reason,
            .summary_json = request_.summary(result_)};
  }

  // What was to be recorded last could not be.
  void give_up(const Error& error) {
    result_.status = store::RunStatus::kFailed;
    result_.exit_code = exit_code(ErrorKind::kStore);
    if (!result_.error) result_.error = run_error(error);
    result_.reason = result_.error->message;
    try {
      list_states();
      writer_->give_up(run_end());
    } catch (const Error&) {
      if (!is_recorded()) result_.run.clear();
    }
  }

  // Whether the run is in the store at all.
  bool is_recorded() {
    try {
      writer_->wait_until_recorded();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  const std::unique_ptr<Hooks> hooks_;
  Session session_;
  const int64_t log_every_, save_every_;
  int64_t evaluate_every_ = 0;
  std::optional<Evaluator> evaluator_;
  std::optional<store::RunWriter> writer_;
  std::optional<Recorder> recorder_;
  std::optional<StateKeeper> keeper_;
  ProvenanceKeeper provenance_;  // after the writer, which it hands its findings to

  data::Position position_;
  Patience patience_;
  bool stopped_early_ = false;
  bool stopped_by_hook_ = false;
  bool save_wanted_ = false;              // by the hook
  const char* due_state_ = nullptr;       // in a hook's loop: why a state is to be saved before the next window
  std::map<std::string, double> points_;  // in a hook's loop: for the end of the window
  std::optional<NotFinite> not_finite_;   // the first, of the recipe's loop
  bool newly_evaluated_ = false;          // after the newest window
  bool warned_of_no_weight_ = false;
  double lr_ = 0, grad_norm_ = 0;
  int64_t samples_ = 0, logged_samples_ = 0;  // since the process started
  std::chrono::steady_clock::time_point logged_at_;
  RunResult result_;
};

}  // namespace

RunResult run(const RunRequest& request) {
  return Run(request).execute();
}

double seconds_since_process_start() {
  static const double started =
      static_cast<double>(store::this_process().start_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

}  // namespace runner::train
