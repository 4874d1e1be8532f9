#include "runner/train/run.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runner/train/checkpoint.h"
#include "runner/train/custom_loop.h"
#include "runner/train/declared_loop.h"
#include "runner/train/forking.h"
#include "runner/train/reduction.h"
#include "runner/train/replicas.h"
#include "runner/train/resuming.h"
#include "runner/train/run_record.h"
#include "runner/train/session.h"
#include "runner/train/state_sharing.h"
#include "runner/train/window_log.h"
#include "runner/train/wishes.h"
#include "schema/error.h"
#include "schema/field_words.h"
#include "schema/system_limits.h"
#include "store/process.h"
#include "store/turn.h"

namespace runner::train {
namespace {

// What happens when: the beginning, the loop, what is due behind each window, the end.
class Run : private RunControl, private LoopHost {
 public:
  // `ranks`: null, or the replicas, of which this is one and all of which it meets; rank 0 alone records.
  explicit Run(const RunRequest& request, backends::Collectives* ranks = nullptr)
      : request_(request),
        recipe_(request.recipe),
        hooks_(request.make_hooks != nullptr ? request.make_hooks(recipe_) : nullptr),
        records_batches_(request.record_batches),
        session_(recipe_, hooks_.get(), ranks),
        save_every_(recipe_.checkpoint.every),
        average_every_(recipe_.train.average_every),
        record_(request, session_, hooks_.get()) {
    if (hooks_) hooks_->attach(this);
    const int64_t first_batch = session_.plan.slice(session_.rank(), 0).size();
    session_.trainer.allocate();
    session_.trainer.prepare({.batch = first_batch, .last = session_.plan.window(0).steps == 1});
    log_.emplace(session_, record_, hooks_.get());
  }

  // As a replica that does not record.
  void follow() {
    const Beginning beginning = receive_beginning(*session_.ranks, session_.trainer);
    records_batches_ = beginning.records_batches;
    record_.begin_without_store(beginning.run, beginning.name, beginning.metrics);
    if (beginning.state) {
      session_.schedule.restore(beginning.state->plateau);
      go_on_from(*beginning.state, beginning.resumed);
    }
    train();
  }

  RunResult execute() {
    record_.open_log_files();
    // Opened, and made where it is missing, only when recipe and data are known to be good.
    store::Store store = store::Store::open(request_.store, store::Access::kWrite);
    store::await_turn(store, request_.stop);
    request_.fork != nullptr  ? fork(std::move(store), *request_.fork)
    : request_.resume.empty() ? record_.begin(std::move(store))
                              : resume(std::move(store));
    request_.observer.on_start(run(), name());
    record_.warn_of_all(request_.warnings);
    record_.warn_of_all(session_.data.warnings);
    record_.warn_of_all(session_.plan_warnings());
    if (session_.data.encoding.label_kind == data::LabelKind::kClass && session_.data.encoding.outputs == 1)
      record_.warn("all labels are of one class: there is nothing to learn");
    try {
      if (session_.ranks != nullptr)
        send_beginning(*session_.ranks, session_.trainer,
                       {.run = std::string(run()),
                        .name = std::string(name()),
                        .records_batches = records_batches_,
                        .metrics = record_.points().ranges(),
                        .state = restored_,
                        .resumed = resumed_});
      train();
    } catch (const Error& error) {
      end_with(error);
    } catch (const std::exception& error) {
      end_with(error_of(error));
    }
    if (tracked()) end_tracking();
    finish();
    return std::move(record_.result);
  }

 private:
  // A hook that was told to hurry, or an evaluation, did not come to its end: resuming does that again.
  void end_with(const Error& error) {
    if (!save_unfinished() || !asked_to_stop() || session_.ranks != nullptr) return record_.fail_with(error);
    if (error.kind() != ErrorKind::kInterrupted)
      record_.warn(fmt::format("the end of step {} was interrupted: {}", step(), error.what()));
    record_.result.status = store::RunStatus::kInterrupted;
    record_.result.exit_code = exit_code(ErrorKind::kInterrupted);
  }

  // ---- beginning ----------------------------------------------------------------------------------------------------

  void fork(store::Store store, const ForkRequest& request) {
    const store::RunRow parent = store::find_run(store, request.run);
    const Forked found = restore_fork(store, parent, request, session_);
    go_on_from(found.state, /*resumed=*/false);
    record_.begin_fork(std::move(store), parent, found.info);
    record_.warn_of_all(found.warnings);
  }

  void resume(store::Store store) {
    const store::RunRow row = store::find_run(store, request_.resume);
    if (request_.may_begin_again && store::list_states(store, row.id, /*for_resume=*/true).empty())
      return begin_again(std::move(store), row);
    const Resumed found = restore_newest(store, row, session_);
    go_on_from(found.state, /*resumed=*/true);
    const std::vector<store::MetricSummary> metrics = metrics_until(store, row, found.info.step);
    const int64_t last_step = last_recorded_step(store, row);
    record_.begin_attempt(std::move(store), row, &found.info, metrics, last_step);
    record_.warn_of_all(found.warnings);
    if (other_batches_) record_.warn(*other_batches_);
    if (!request_.longer) return;
    if (const auto text = stretched_schedule(session_, metrics)) record_.warn(*text);
  }

  void begin_again(store::Store store, const store::RunRow& row) {
    std::optional<Forked> found;
    if (request_.fork != nullptr) {
      found = restore_fork(store, store::find_run(store, request_.fork->run), *request_.fork, session_);
      go_on_from(found->state, /*resumed=*/false);
    }
    const int64_t last_step = last_recorded_step(store, row);
    record_.begin_attempt(std::move(store), row, found ? &found->info : nullptr, {}, last_step);
  }

  // What restoring a state leaves to the loop.
  void go_on_from(const RunState& state, bool resumed) {
    resumed_ = resumed;
    position_ = place_of(state, session_, other_batches_);
    window_ = state.window;
    next_accumulation_ = state.next_accumulation > 0 ? state.next_accumulation : session_.accumulation();
    reached_ = {step(), state.reached_epoch, session_.trainer.counters.samples};
    saved_until_ = reached_;
    if (window_.batches > 0) saved_until_ = {step(), position_.epoch, reached_.samples + window_.samples};
    log_->set_patience(state.patience);
    if (!session_.trainer.is_local() || session_.rank() == 0) session_.trainer.set_metrics(state.metrics);
    if (hooks_ && !state.hook.empty()) hooks_->restore(state.hook);
    if (resumed) log_->stop_where_patience_is_over();
    if (resumed && state.end) unfinished_ = state;
    if (session_.ranks == nullptr) return;
    restored_ = state;
    restored_->counters = session_.trainer.counters;
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  int64_t step() const override { return session_.trainer.counters.windows; }
  bool finished() const override { return step() >= session_.scale.total_steps || stops(); }
  bool stops() const { return log_->stopped_early() || stopped_by_hook_; }
  bool asked_to_stop() const override { return request_.stop.load(std::memory_order_relaxed) > 0; }
  bool interrupted() const override { return session_.ranks != nullptr ? agreed_to_stop_ && whole_ : asked_to_stop(); }

  // What one replica is asked for, all do, behind the same window.
  void agree(uint64_t decisions = 0) {
    if (session_.ranks == nullptr || !whole_) return;
    const Wishes all = agreed({.interrupted = asked_to_stop(),
                               .stop = stop_wanted_,
                               .save = save_wanted_,
                               .drawn = hooks_ ? hooks_->drawn() : 0,
                               .accumulation = next_accumulation_,
                               .decisions = decisions},
                              *session_.ranks, step());
    agreed_to_stop_ = all.interrupted;
    stopped_by_hook_ = all.stop;
    save_wanted_ = all.save;
    if (hooks_) hooks_->set_drawn(all.drawn);
  }

  // Replicas with weights of their own (train.local_sgd) are one model again where they average them, and nothing is
  // agreed on, saved or evaluated elsewhere.
  void average(bool due) {
    whole_ = due;
    if (due) session_.trainer.average();
  }

  // What a hook has asked for holds from the next window on.
  void adopt_accumulation() {
    if (next_accumulation_ == session_.accumulation() || !whole_) return;
    session_.set_accumulation(next_accumulation_);
    session_.count_steps_from(position_, 0);
  }

  // From the next batch on.
  data::LoaderSpec loader_spec() const override {
    return {.shuffle = recipe_.data.shuffle,
            .seed = session_.data_seed(),
            .replica = session_.rank(),
            .from = position_,
            .prefetch = recipe_.data.prefetch,
            .transform = hooks_ ? hooks_->transform() : nullptr,
            .without_repeats = has(hooks_.get(), HookEntry::kTrainingStep),
            .never_empty = session_.own_loop || session_.trainer.is_local()};
  }

  void train() {
    log_->start();
    if (tracked()) hooks_->track_begin();
    on(HookEvent::kRunBegin);
    agree();
    if (window_.batches == 0) adopt_accumulation();
    if (unfinished_) {
      if (record_.is_recorded_here()) record_.states().forget();
      finish_window(*std::exchange(unfinished_, std::nullopt)->end, /*logged=*/true);
    }
    session_.own_loop ? CustomLoop(session_, *hooks_, *this).run() : DeclaredLoop(session_, *this).run();
    if (!whole_) average(/*due=*/true);
    const bool done = finished() || (session_.own_loop && !interrupted());
    save(done ? "end" : "interrupt");
    if (record_.is_recorded_here()) record_.states().wait();
    if (done) on(HookEvent::kRunEnd);  // what it changes is in no state: a longer run goes on as if it had not ended
    if (session_.ranks != nullptr) session_.ranks->barrier({"the end", step()});
    record_.result.status = done ? store::RunStatus::kDone : store::RunStatus::kInterrupted;
    record_.result.exit_code = done ? 0 : exit_code(ErrorKind::kInterrupted);
  }

  void begin_window() override {
    settle();
    if (hooks_ && !std::exchange(has_begun_, true)) hooks_->check_registered();
    if (position_.begins_epoch()) on(HookEvent::kEpochBegin);
    if (hooks_ && (session_.own_loop || position_.begins_epoch())) agree();
    adopt_accumulation();
  }

  // A moment like the end of a window, but for the update.
  void inside_window(const Trainer::Window& window) override {
    window_ = window;
    position_ = window.next;
    if (records_batches_ && session_.ranks != nullptr)
      window_.batch_digest = digest_of_all(window.batch_digest, *session_.ranks, {"batches", step()});
    agree();
    const Reached before = saved_until_;
    saved_until_ = {step(), position_.epoch, session_.trainer.counters.samples + window.samples};
    save_due_ = save_every_.due(before, saved_until_);
    if (save_due_) save("schedule");
    record_.collect();
  }

  void end_window(const Trainer::Window& window) override {
    window_ = {};
    for (const auto& [name, value] : std::exchange(points_, {})) log(name, value);
    const Reached before = reached_;
    reached_ = {step(), window.next.epoch, session_.trainer.counters.samples};
    position_ = window.next;
    if (session_.trainer.is_local()) average(average_every_.due(before, reached_) || finished());
    if (hooks_) agree(window.decisions);
    log_->take(window, before, reached_);
    save_due_ = whole_ && save_every_.due(std::exchange(saved_until_, reached_), reached_);
    if (records_batches_) record_batches(window.batch_digest);
    if (!record_.result.first_step_seconds) record_.first_window();
    warn_of_unused();
    const bool logged = log_->logging_due() || finished();
    if (logged) log_->log();
    const bool evaluation = log_->evaluates() && whole_ && (log_->evaluation_due() || finished());
    finish_window({.evaluation = evaluation, .ends_epoch = window.ends_epoch}, logged);
  }

  // What evaluations and hooks do behind a window, and the state that is due then.
  void finish_window(WindowEnd end, bool logged) {
    keep_unfinished(end);
    if (end.evaluation) {
      evaluate();
      end = {.evaluated = true, .ends_epoch = end.ends_epoch};
      keep_unfinished(end);
    }
    if (end.evaluated) on(HookEvent::kEvaluation);
    on(HookEvent::kStepEnd);
    if (end.ends_epoch) on(HookEvent::kEpochEnd);
    if (end.ends_epoch && !position_.begins_epoch()) on(HookEvent::kEpochBegin);
    agree();
    unfinished_.reset();
    adopt_accumulation();
    if (stops() && !logged) log_->log();
    if (tracked()) track();
    const char* const reason = whole_ ? reason_to_save() : nullptr;
    if (session_.own_loop) {
      if (due_state_ == nullptr) due_state_ = reason;
    } else if (reason != nullptr) {
      save(reason);
    }
    record_.collect();
    request_.observer.on_step(progress());
  }

  void warn_of_unused() {
    const std::string& names = session_.trainer.unused();
    if (names.empty() || std::exchange(warned_of_unused_, true)) return;
    record_.warn(
        fmt::format("the loss does not depend on {}: the gradient is zero there, and weight decay goes on; freeze "
                    "what is not to be trained (model.freeze)",
                    names));
  }

  void record_batches(uint64_t digest) {
    if (session_.ranks != nullptr) digest = digest_of_all(digest, *session_.ranks, {"batches", step()});
    record_.points().add(kBatchDigest, step(), static_cast<double>(digest >> 11));
  }

  // A phase may have taken this much.
  void measure(int64_t PeakMemory::*phase, int64_t copies = 0) {
    int64_t& peak = record_.result.peak_memory.*phase;
    peak = std::max(peak, session_.trainer.memory().total() + copies);
  }

  void evaluate() {
    measure(&PeakMemory::training);
    const size_t before = session_.device->temporary_bytes();
    const std::map<std::string, double> metrics =
        log_->evaluate([this] { return unfinished_.has_value() && asked_to_stop(); });
    measure(&PeakMemory::evaluation);
    if (session_.device->temporary_bytes() > before) session_.device->release_temporary();
    request_.observer.on_evaluation(progress(), metrics);
  }

  bool tracked() const { return has(hooks_.get(), HookEntry::kTrackers) && session_.rank() == 0; }
  void track() {
    const std::map<std::string, double> points = record_.points().at(step());
    if (!points.empty()) hooks_->track(points, step());
  }

  // Trackers hear of a failure as well, and a failure of theirs is one of the run.
  void end_tracking() {
    try {
      hooks_->track_end(to_string(record_.result.status));
    } catch (const Error& error) {
      record_.result.error ? record_.warn(fmt::format("trackers: {}", error.what())) : record_.fail_with(error);
    }
  }

  // ---- states -------------------------------------------------------------------------------------------------------

  // Null: none.  The last state of a run is saved by train().
  const char* reason_to_save() {
    if (finished()) return nullptr;
    if (std::exchange(save_wanted_, false)) return "hook";
    if (save_due_) return "schedule";
    return log_->evaluated() && record_.is_recorded_here() &&
                   record_.states().is_among_best(record_.points().at(step()))
               ? "best"
               : nullptr;
  }

  RunState state() {
    session_.trainer.learn();
    return {.position = position_,
            .window = window_,
            .reached_epoch = reached_.epochs,
            .end = std::nullopt,
            .accumulation = session_.accumulation(),
            .next_accumulation = next_accumulation_,
            .used = session_.used_before(position_),
            .global_batch = session_.plan.global_batch_size(),
            .extra_steps = session_.extra_steps(),
            .counters = session_.trainer.counters,
            .plateau = session_.schedule.plateau(),
            .patience = log_->patience(),
            .metrics = session_.trainer.metrics(),
            .hook = hooks_ ? hooks_->state() : "",
            .encoding = session_.data.encoding,
            .train_data = session_.train_fingerprint(),
            .eval_data = session_.eval_fingerprint()};
  }

  void save(const char* reason) {
    measure(&PeakMemory::training);
    if (!record_.is_recorded_here()) return;
    StateKeeper& states = record_.states();
    states.save(session_.trainer, state(), reason, stays(),
                window_.batches == 0 ? record_.points().at(step()) : std::map<std::string, double>());
    measure(&PeakMemory::saving, copies_for_state(session_.trainer.arrays_memory(), states.largest_state()));
  }

  // From here on hooks may fail, and evaluations may be interrupted: a window of the recipe's loop is whole all the
  // same.
  void keep_unfinished(const WindowEnd& end) {
    const bool may_take_long = end.evaluation || end.evaluated || end.ends_epoch || finished();
    if (session_.own_loop || !whole_ || !may_take_long || (hooks_ == nullptr && !end.evaluation)) return;
    unfinished_ = state();
    unfinished_->end = end;
  }

  // Whether what was kept so is saved now.
  bool save_unfinished() {
    if (!unfinished_ || !record_.is_recorded_here()) return false;
    try {
      record_.states().save(session_.trainer, *unfinished_, asked_to_stop() ? "interrupt" : "failed",
                            /*pinned=*/false, record_.points().at(step()));
      record_.states().wait();
      return true;
    } catch (const Error&) {  // what has failed before says why the run ends
      return false;
    }
  }

  // Whether checkpoint.keep_every pins the state behind the newest window.
  bool stays() const {
    const auto& every = recipe_.checkpoint.keep_every;
    return save_due_ && every && save_every_.count(saved_until_) % *every == 0;
  }

  // ---- what is not finite -------------------------------------------------------------------------------------------

  void not_finite(const NotFinite& found, bool untouched) override {
    if (recipe_.train.on_nan == schema::OnNan::kSkip) {
      if (++record_.result.skipped_steps == 1)
        record_.warn(fmt::format("step {} was skipped: {}{}", step() + session_.own_loop, found.what,
                                 found.where.known() ? fmt::format(" ({})", found.where.to_string()) : ""));
      return;
    }
    // A step that did nothing leaves the model before it on the device: worth keeping, if it is finite itself.
    try {
      if (step() > 0 && untouched && whole_) save("not finite");
    } catch (const Error&) {  // `found` says it
    }
    session_.trainer.learn();
    throw Error(ErrorKind::kRun, what_failed(found, step() + 1, session_.trainer.counters.applied > 0), found.where);
  }

  // ---- what a loop asks for -----------------------------------------------------------------------------------------

  data::Position position() const override { return position_; }
  void set_position(const data::Position& position) override {
    position_ = position;
    window_ = {};
  }
  const Trainer::Window& window() const override { return window_; }
  void point(const std::string& name, double value) override { points_[name] = value; }
  void save_soon(bool in_window) override {
    if (in_window) {
      save_wanted_ = true;
    } else {
      due_state_ = "hook";
    }
  }
  // What the hook does behind a window, at the end of an epoch, belongs to it: a state holds that as well.
  void settle() override {
    if (const char* const reason = std::exchange(due_state_, nullptr)) save(reason);
  }
  void check_state(std::optional<int64_t> state) override {
    if (session_.ranks == nullptr) return record_.check_state(state);
    std::string error;
    try {
      if (record_.is_recorded_here()) record_.check_state(state);
    } catch (const Error& found) {
      if (found.kind() != ErrorKind::kRun) throw;
      error = found.message();
    }
    error = session_.ranks->gather_objects(error, {"load_state", step()}).front();
    RUN_CHECK(error.empty(), ErrorKind::kRun, "{}", error);
  }
  void load(std::optional<int64_t> state) override {
    RunState found;
    if (record_.is_recorded_here()) {
      store::Store store = record_.reopened();
      found = restore_values(store, store::find_run(store, record_.result.run), state, session_);
      found.counters = session_.trainer.counters;
      record_.states().forget();
    }
    if (session_.ranks != nullptr) found = share_state(*session_.ranks, session_.trainer, found);
    session_.schedule.restore(found.plateau);
    if (!found.hook.empty()) hooks_->restore(found.hook);
  }

  // ---- what hooks of events do --------------------------------------------------------------------------------------

  void on(HookEvent event) {
    if (hooks_ && hooks_->has(event)) hooks_->on(event);
  }

  std::string_view run() const override { return record_.result.run; }
  std::string_view name() const override { return record_.result.name; }
  int64_t epoch() const override { return position_.epoch; }
  int64_t steps() const override { return session_.scale.total_steps; }
  int64_t accumulation() const override { return next_accumulation_; }
  void set_accumulation(int64_t batches) override { next_accumulation_ = batches; }
  void save() override { save_wanted_ = true; }
  void stop() override { (session_.ranks != nullptr ? stop_wanted_ : stopped_by_hook_) = true; }
  void print(std::string_view text) override { request_.observer.on_print(text); }
  backends::Collectives* replicas() const override { return session_.ranks; }
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) override {
    record_.save_artifact(name, kind, std::move(bytes));
  }
  void save_model(const std::string& name, int64_t max_shard_size) override {
    for (FileBytes& file : model_files(session_.trainer, name, max_shard_size))
      save_artifact(file.name, "model", std::move(file.bytes));
  }
  std::optional<double> metric(const std::string& name) const override {
    if (!record_.begun()) return std::nullopt;
    const double value = record_.points().newest(name);
    return std::isnan(value) ? std::nullopt : std::optional(value);
  }
  void log(const std::string& name, double value) override { record_.points().add(name, step(), value); }

  Observer::Progress progress() const {
    return {.epoch = position_.epoch,
            .epochs = recipe_.train.epochs.value_or(0),
            .step = step(),
            .steps = session_.scale.total_steps,
            .samples = log_->samples(),
            .loss = record_.points().newest("train/loss")};
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void finish() {
    session_.trainer.learn();
    const Counters& counters = session_.trainer.counters;
    RunResult& result = record_.result;
    result.epochs = position_.epoch;
    result.optimizer_steps = counters.windows;
    result.skipped_steps = counters.windows - counters.applied;
    result.samples = counters.samples;
    result.repeated_samples = counters.repeats;
    if (log_->stopped_early())
      result.reason = fmt::format("stopped early: {} has not improved for {} evaluations",
                                  recipe_.train.early_stopping->metric, log_->patience().evaluations);
    if (stopped_by_hook_) result.reason = fmt::format("stopped by the hook at step {}", step());
    if (session_.own_loop) tell_of_little_training(result);
    record_.finish();
  }

  // A loop of a hook's decides what it does; that it left out what one expects of it is worth a word.
  void tell_of_little_training(RunResult& result) {
    if (!finished() && !interrupted())
      result.reason = fmt::format("the hook's train has returned at step {} of {}", step(), session_.scale.total_steps);
    const Counters& counters = session_.trainer.counters;
    const bool updated = std::ranges::any_of(counters.updates, [](const auto& one) { return one.second > 0; });
    if (counters.applied > 0 && !updated)
      record_.warn(
          fmt::format("no optimizer has stepped in {}: the weights are as they were; call "
                      "acc.optimizer:step() behind acc:backward(loss)",
                      schema::length_text(step(), "steps")));
  }

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  const std::unique_ptr<Hooks> hooks_;
  bool records_batches_;
  Session session_;
  const Interval save_every_, average_every_;
  RunRecord record_;
  std::optional<WindowLog> log_;  // always there, once the steps are known to be good

  int64_t next_accumulation_ = recipe_.gradient_accumulation_steps;  // batches of a window behind the one under way
  data::Position position_;                                          // of the next batch
  Trainer::Window window_;                    // of the recipe's loop, under way; without batches: none
  Reached reached_;                           // at the end of the newest window
  Reached saved_until_;                       // where the newest state could have been, inside a window, too
  std::optional<std::string> other_batches_;  // to warn of, when the run is resumed
  std::optional<RunState> restored_;          // for the other replicas
  std::optional<RunState> unfinished_;        // at the end of the newest window, while hooks may fail there
  bool whole_ = true;                         // the replicas hold the same weights
  bool resumed_ = false;                      // restored_ is of this run itself
  bool stopped_by_hook_ = false;
  bool stop_wanted_ = false;     // by this replica's hook
  bool agreed_to_stop_ = false;  // all replicas have heard of an interruption
  bool save_wanted_ = false;     // by the hook
  bool warned_of_unused_ = false;
  bool has_begun_ = false;                // the first window
  bool save_due_ = false;                 // behind the newest window
  const char* due_state_ = nullptr;       // in a hook's loop: why a state is to be saved before the next window
  std::map<std::string, double> points_;  // in a hook's loop: for the end of the window
};

}  // namespace

RunResult run(const RunRequest& request) {
  const auto processes = static_cast<int>(request.recipe.num_processes);
  if (processes == 1) return Run(request).execute();
  const std::chrono::milliseconds timeout(static_cast<int64_t>(request.recipe.collective_timeout * 1000));
  Replicas replicas(
      processes, {.job = request.job, .timeout = timeout, .program = request.replica_program, .stop = &request.stop});
  try {
    Run run(request, &replicas.collectives());
    RUN_CHECK(replicas.begin(), ErrorKind::kInterrupted, "interrupted before the run began");
    RunResult result = run.execute();
    result.lost_process = result.error && replicas.lost_one();
    if (!result.error) replicas.finish();
    return result;
  } catch (const Error&) {
    RUN_CHECK(!replicas.stopped_at_start(), ErrorKind::kInterrupted,
              "interrupted while {} processes were started; nothing is recorded", processes);
    throw;
  }
}

void run_replica(const RunRequest& request, backends::Collectives& ranks) {
  try {
    Run(request, &ranks).follow();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const size_t place = error.where().known() ? error.where().to_string().size() + 2 : 0;  // "h.lua:3: "
    ranks.fail(fmt::format("rank {}: {}", ranks.rank(), text.substr(place)), error.where());
    throw;
  } catch (const std::exception& error) {
    ranks.fail(fmt::format("rank {}: {}", ranks.rank(), error_of(error).message()), {});
    throw;
  }
}

double seconds_since_process_start() {
  static const double started =
      static_cast<double>(store::this_process().start_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

}  // namespace runner::train
