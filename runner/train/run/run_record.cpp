#include "runner/train/run/run_record.h"

#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backends/kernels/kernel_choices.h"
#include "backends/runtime/cpu_features.h"
#include "runner/formats/chrome_trace.h"
#include "runner/train/run/log_sink.h"
#include "runner/train/step/loss_scaler.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/secrets.h"
#include "store/artifacts.h"

namespace runner::train {

namespace {

std::string trace_name(int64_t attempt, int64_t cycle) {
  return fmt::format("trace/attempt-{}-cycle-{}.json", attempt, cycle);
}

RunError run_error(const Error& error) {
  return {hide_secrets(std::string(error.text())), error.where().file, error.where().line, hide_secrets(error.what())};
}

struct Ranking {
  std::string metric;
  bool maximize;
};

// What "best" or "best(METRIC)" means: the metric that the recipe monitors, or METRIC.
Ranking ranking_of(std::string_view selector, const schema::Recipe& recipe, const Hooks* hooks) {
  if (selector != store::kBestState) {
    const std::optional<std::string> metric = store::best_metric(selector);
    RUN_CHECK(metric, ErrorKind::kRun, "load_state: expected best or best(METRIC), got '{}'", selector);
    return {*metric, maximizes(schema::Mode::kAuto, *metric, hooks)};
  }
  if (const auto& spec = recipe.checkpoint.keep_best) return {spec->metric, maximizes(spec->mode, spec->metric, hooks)};
  if (const auto& spec = recipe.train.early_stopping) return {spec->metric, maximizes(spec->mode, spec->metric, hooks)};
  return {"eval/loss", false};
}

std::vector<data::DataFile> files_of(const Session& session) {
  std::vector<data::DataFile> files = session.data.files;
  files.insert(files.end(), session.weight_files.begin(), session.weight_files.end());
  return files;
}

}  // namespace

RunRecord::RunRecord(const RunRequest& request, const Session& session, const Hooks* hooks)
    : request_(request), session_(session), hooks_(hooks), provenance_(request, files_of(session), hooks) {
  result.name = hide_secrets(request.recipe.name);
  result.backend = session.device->name();
  result.num_processes = request.recipe.num_processes;
}

// ---- beginning -----------------------------------------------------------------------------------------------------

store::AttemptInfo RunRecord::attempt_info() const {
  store::AttemptInfo info;
  info.recipe = request_.recording.recipe;
  info.params = request_.recording.params;
  info.backend = result.backend;
  info.num_processes = result.num_processes;
  info.planned_steps = session_.length.total_steps;
  info.cpu_features = backends::cpu_features().to_string();
  info.kernels_json = backends::kernel_choices_json();
  info.binary_version = request_.recording.binary_version;
  info.provenance = provenance_.known();
  return info;
}

store::RunInfo RunRecord::new_run() const {
  return {.uid = store::new_run_uid(),
          .name = result.name,
          .seed = request_.recipe.seed,
          .parent = {},
          .attempt = attempt_info()};
}

// `run`: a new RunInfo or the handle of a claimed run.
template <class RunOf>
void RunRecord::record(store::Store store, RunOf run, int64_t attempt) {
  result.run = run.uid;
  attempt_ = attempt;
  if (logs_) logs_->begin(run.uid, attempt, step());
  if (trace_file_) trace_file_->begin();
  writer_.emplace(std::move(store), std::move(run));
  recorder_.emplace(&*writer_, logs_ ? &*logs_ : nullptr, hooks_);
  const schema::CheckpointSpec& checkpoint = request_.recipe.checkpoint;
  const auto& best = checkpoint.keep_best;
  saver_.emplace(*writer_, checkpoint, best && maximizes(best->mode, best->metric, hooks_));
}

void RunRecord::open_log_files() {
  const schema::Recipe& recipe = request_.recipe;
  if (has_log_files(recipe.log)) logs_.emplace(recipe.log);
  if (!recipe.profile || recipe.profile->out.empty()) return;
  for (const auto& [key, path] : {std::pair("log.csv", recipe.log.csv), std::pair("log.jsonl", recipe.log.jsonl)})
    RUN_CHECK(path.empty() || !is_same_file(path, recipe.profile->out), ErrorKind::kData,
              "{} and profile.out are both {}; use different files", key, path);
  trace_file_.emplace(recipe.profile->out);
}

void RunRecord::begin(store::Store store) {
  record(std::move(store), new_run());
  writer_->wait_until_recorded();
}

void RunRecord::begin_without_store(const std::string& run, const std::string& name,
                                    const std::map<std::string, MetricRange>& metrics) {
  result.run = run;
  result.name = name;
  recorder_.emplace(nullptr);
  for (const auto& [metric, range] : metrics) recorder_->resume(metric, range);
}

void RunRecord::begin_fork(store::Store store, const store::RunRow& parent, const store::StateInfo& from) {
  store::RunInfo info = new_run();
  info.parent = parent.uid;
  info.attempt.start_step = step();
  info.attempt.from_state = from.id;
  record(std::move(store), std::move(info));
  writer_->wait_until_recorded();
}

void RunRecord::begin_attempt(store::Store store, const store::RunRow& run, const Earlier& earlier) {
  store::AttemptInfo info = attempt_info();
  info.start_step = step();
  info.start_ms = earlier.recorded_ms;
  if (earlier.from != nullptr) info.from_state = earlier.from->id;
  const store::RunHandle handle = store::begin_attempt(store, run.uid, info);
  result.name = run.name;
  const std::vector<store::StateInfo> states = store::list_states(store, run.id, /*for_resume=*/true);
  record(std::move(store), handle, handle.attempt);
  for (const store::MetricSummary& metric : earlier.metrics)
    recorder_->resume(metric.name, {metric.last, metric.min, metric.max});
  saver_->resume(step(), states);
  if (!logs_) return;
  if (const auto text = logs_->twice_written(step(), earlier.last_step)) warn(*text);
}

// ---- during the run -------------------------------------------------------------------------------------------------

std::string RunRecord::event_json(const std::string& text) const {
  return json::line(json::Object{{"step", step()}, {"text", text}});
}

void RunRecord::event(store::Level level, std::string kind, std::string json) {
  if (writer_) writer_->event(level, std::move(kind), hide_secrets(std::move(json)));
}

void RunRecord::warn(const std::string& message, bool is_shown) {
  const std::string text = hide_secrets(message);
  result.warnings.push_back(text);
  event(store::Level::kWarning, "warning", event_json(text));
  if (!is_shown) request_.observer.on_warning(text);
}

void RunRecord::warn_of_all(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) warn(text);
}

double RunRecord::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - request_.started).count();
}

void RunRecord::first_optimizer_step() {
  result.first_step_seconds = seconds();
  if (writer_) provenance_.complete(*writer_);
}

void RunRecord::pass_on_warnings() {
  warn_of_all(writer_->take_warnings());
  if (logs_) warn_of_all(logs_->take_warnings());
}

void RunRecord::collect() {
  if (!writer_) return;
  if (logs_) logs_->hand_over();
  saver_->collect();
  pass_on_warnings();
}

void RunRecord::save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) {
  if (!writer_) return;
  store::ArtifactHeader header{
      .name = hide_secrets(name), .kind = hide_secrets(std::string(kind)), .meta = {}, .step = step()};
  store::check_artifact_name(header.name);  // the writer would only warn
  try {
    writer_->save_artifact(std::move(header), std::move(bytes)).get();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kStore) throw;  // the writer warns of store errors
  }
}

void RunRecord::keep_trace(const std::string& events) {
  if (!writer_) return;
  const std::string document = hide_secrets(formats::trace_document(std::span(&events, 1)));
  const auto bytes = std::as_bytes(std::span(document));
  save_artifact(trace_name(attempt_, ++cycles_), kTraceKind, {bytes.begin(), bytes.end()});
  if (!trace_file_) return;
  if (const auto text = trace_file_->add(events)) warn(*text);
}

store::Store RunRecord::reopened() {
  saver_->wait();
  writer_->wait_until_recorded();
  return store::Store::open(request_.recording.store, store::Access::kRead);
}

int64_t RunRecord::find_state(const std::string& selector) {
  store::Store store = reopened();
  const store::RunRow run = store::find_run(store, result.run);
  std::vector<store::StateInfo> states = store::list_states(store, run.id, /*for_resume=*/true);
  if (store::selects_best(selector)) {
    const auto [metric, maximize] = ranking_of(selector, request_.recipe, hooks_);
    states = store::ranked(std::move(states), hide_secrets(metric), maximize);
    RUN_CHECK(!states.empty(), ErrorKind::kRun,
              "load_state: no state of run {} was saved with a value of {}; checkpoint.keep_best saves the best ones",
              run.uid, metric);
    return states.front().id;
  }
  for (const store::StateInfo& info : states)
    if (store::is_selected(info, hide_secrets(selector))) return info.id;
  RUN_CHECK(!selector.empty(), ErrorKind::kRun, "load_state: run {} has no state yet", run.uid);
  RUN_CHECK(store::is_state_name(selector), ErrorKind::kRun, "load_state: run {} has no state {}", run.uid, selector);
  fail(ErrorKind::kRun, "load_state: run {} has no state named '{}'{}", run.uid, selector,
       store::named_states_text(states));
}

// ---- the end -------------------------------------------------------------------------------------------------------

void RunRecord::fail_with(const Error& error) {
  result.status = store::RunStatus::kFailed;
  result.exit_code = error.kind() == ErrorKind::kStore ? exit_code(ErrorKind::kStore) : exit_code(ErrorKind::kRun);
  result.error = run_error(error);
  event(store::Level::kError, "failure", event_json(result.error->message));
  try {
    saver_->wait();
  } catch (const Error&) {  // the writer warns
  }
}

void RunRecord::finish() {
  result.metrics = recorder_->ranges();
  if (result.error) result.reason = result.error->message;
  result.seconds = seconds();
  // Skipped steps are normal while a loss scaler finds its scale.
  if (const int64_t skipped = result.skipped_steps - result.unlabelled_steps;
      skipped > 0 && !first_scale(request_.recipe))
    warn(fmt::format("{} of {} steps were skipped: not finite", skipped, result.optimizer_steps));
  if (result.unlabelled_steps > 0)
    warn(fmt::format("{} of {} steps were skipped: no label counted", result.unlabelled_steps, result.optimizer_steps));
  provenance_.finish(*writer_, result.status == store::RunStatus::kInterrupted);
  if (logs_) logs_->finish();
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

void RunRecord::list_states() {
  const store::RunHandle handle = writer_->wait_until_recorded();
  store::Store store = store::Store::open(request_.recording.store, store::Access::kRead);
  result.states.clear();
  for (const store::StateInfo& info : store::list_states(store, handle.id))
    if (!info.superseded) result.states.insert(result.states.begin(), info.id);
}

store::RunEnd RunRecord::run_end() const {
  return {.status = result.status,
          .exit_code = result.exit_code,
          .reason = result.reason,
          .summary_json = request_.recording.summary(result)};
}

// Called if the end of the run could not be recorded.
void RunRecord::give_up(const Error& error) {
  result.status = store::RunStatus::kFailed;
  result.exit_code = exit_code(ErrorKind::kStore);
  if (!result.error) result.error = run_error(error);
  result.reason = result.error->message;
  try {
    list_states();
    writer_->give_up(run_end());
  } catch (const Error&) {
    if (!is_recorded()) result.run.clear();
  }
}

// Whether the run is in the store at all.
bool RunRecord::is_recorded() {
  try {
    writer_->wait_until_recorded();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace runner::train
