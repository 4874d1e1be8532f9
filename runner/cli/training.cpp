#include "runner/cli/training.h"

#include <chrono>
#include <utility>

#include "runner/cli/hook_faults.h"
#include "runner/cli/interrupt.h"
#include "runner/cli/launch_report.h"
#include "runner/cli/launcher.h"
#include "runner/cli/rank.h"
#include "runner/cli/recipe_file.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/slurm_job.h"
#include "runner/cli/spooling.h"
#include "runner/cli/store_access.h"
#include "runner/cli/version.h"
#include "runner/formats/reading_watch.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/progress.h"
#include "runner/report/provenance.h"
#include "runner/report/run_text.h"
#include "runner/report/summary.h"
#include "runner/report/xla/metrics_report.h"
#include "runner/report/xla/report_json.h"
#include "runner/train/loop/start_warnings.h"
#include "runner/train/run/checkpoint/restore.h"
#include "schema/recipe/resume_check.h"
#include "store/process.h"

namespace runner::cli {
namespace {

// Informs the Interrupt when the run begins, and prints `note` then if it is not empty. Commands in warnings get the
// store that was given.
class RunReporter : public report::ProgressReporter {
 public:
  RunReporter(report::Output& out, const Options& options, bool quiet, const Attempt& attempt, Interrupt& interrupt)
      : ProgressReporter(out, quiet),
        out_(out),
        options_(options),
        note_(attempt.start.note),
        max_restarts_(attempt.recipe.recipe.max_restarts),
        interrupt_(interrupt) {}

  void on_warning(std::string_view text) override {
    ProgressReporter::on_warning(with_store_option(std::string(text), options_));
  }
  void on_notice(std::string_view text) override {
    ProgressReporter::on_notice(with_store_option(std::string(text), options_));
  }

  void on_start(std::string_view run, std::string_view name) override {
    interrupt_.run_has_begun(true);
    if (earlier_attempts() != nullptr) send(report_of(BegunRun{std::string(run), std::string(name), max_restarts_}));
    if (const std::string note = std::exchange(note_, {}); !note.empty()) out_.say(note);
    ProgressReporter::on_start(run, name);
  }

 private:
  report::Output& out_;
  const Options& options_;
  std::string note_;
  const int64_t max_restarts_;
  Interrupt& interrupt_;
};

// Calls train::run(), which throws only for errors before the run begins. If a new run is interrupted then, there is no
// state to resume from, so the exit code is 1 instead of 4.
train::RunResult run_to_its_end(const train::RunRequest& request) {
  try {
    return train::run(request);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kInterrupted && request.origin.resume.empty()) error.set_kind(ErrorKind::kRun);
    throw;
  }
}

// Adds information about the recipe to errors of `work`, for the JSON document of a run that did not begin.
template <class Work>
auto about_recipe(const schema::ReadResult& recipe, Work work) {
  try {
    return work();
  } catch (Error& error) {
    error.set_run({.id = {},
                   .name = {},
                   .backend = schema::display_text(recipe.find("backend")->value),
                   .num_processes = recipe.recipe.num_processes});
    set_place_of_key(error, recipe);
    throw;
  }
}

// This process trains one run, whose durations include the start of the program.
std::chrono::steady_clock::time_point process_start() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> age(store::seconds_since_process_start());
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

std::vector<std::vector<int>> cores_of_launched() {
  const train::MpiRanks* const ranks = launched_ranks();
  return ranks != nullptr ? ranks->cores() : std::vector<std::vector<int>>();
}

// `file`: where the attempt is recorded.
train::RunResult train_attempt(Attempt attempt, const std::filesystem::path& file, train::Observer& observer,
                               const std::atomic<int>& stop) {
  const schema::Recipe& recipe = attempt.recipe.recipe;
  const AttemptStart& start = attempt.start;
  std::vector<std::string> warnings = train::start_warnings(attempt.recipe);
  warnings.insert(warnings.end(), start.warnings.begin(), start.warnings.end());
  std::string job = rank_job(recipe, attempt.record.resolved_json, start.hook);
  const train::RunRequest request{
      .recipe = recipe,
      .warnings = std::move(warnings),
      .origin = start.origin,
      .recording = {.store = file,
                    .recipe = std::move(attempt.record),
                    .params = std::move(attempt.params),
                    .summary = report::run_document,
                    .metrics_document = report::xla::metrics_document,
                    .binary_version = version(),
                    .build_id = build_id(),
                    .provenance = report::provenance_at_start(start.includes),
                    .complete_provenance =
                        [&](store::Provenance& provenance) { report::add_git_state(provenance, start.folder); }},
      .rank_start = {.mpi = launched_ranks(), .job = std::move(job), .follow = follower(start.hook)},
      .make_hooks = usable_hooks(
          attempt.recipe,
          lua::hooks_maker(
              start.hook, [&](std::string_view text) { observer.on_print(text); }, report::xla::report_text)),
      .observer = observer,
      .started = process_start(),
      .stop = stop,
      .cores = cores_of_launched()};
  const std::string recorded = start.origin.fork != nullptr ? start.origin.fork->run : start.origin.resume;
  return about_recipe(attempt.recipe,
                      [&] { return about_recorded_recipe(recorded, [&] { return run_to_its_end(request); }); });
}

store::RunDetails details_in(const std::filesystem::path& file, const std::string& run) {
  store::Store store = store::Store::open(file, store::Access::kRead);
  return store::show_run(store, store::find_run(store, run));
}

// Continues a run like `runner resume`. If it has no state yet, it begins again: as a fork, if `fork` is not null.
Attempt attempt_to_continue(const store::RunDetails& run, const train::ForkRequest* fork, const Options& options,
                            const std::vector<std::string>& settings = {}) {
  Attempt attempt = attempt_to_resume(run, store_path(options), settings);
  attempt.start.origin.fork = fork;
  attempt.start.origin.may_begin_again = true;
  return attempt;
}

// Trains, and after the loss of a process continues the run, up to max_restarts times. `file`: where the attempts are
// recorded.
train::RunResult train_with_restarts(Attempt attempt, const Options& options, const std::filesystem::path& file,
                                     train::Observer& observer, Interrupt& interrupt) {
  const std::atomic<int>& stop = interrupt.count();
  // Only a launcher can start its processes again.
  const int64_t restarts = launched_ranks() != nullptr ? 0 : attempt.recipe.recipe.max_restarts;
  const train::ForkRequest* const fork = attempt.start.origin.fork;
  train::RunResult result = train_attempt(std::move(attempt), file, observer, stop);
  std::vector<std::string> lost;
  if (const EarlierAttempts* const earlier = earlier_attempts()) lost = earlier->lost;
  for (int64_t i = 1; result.lost_process && i <= restarts && stop == 0; ++i) {
    Attempt next = attempt_to_continue(details_in(file, result.run), fork, options);
    lost.push_back(fmt::format("{}; restart {} of {}", result.error->message, i, restarts));
    next.start.warnings.push_back(lost.back());
    interrupt.run_has_begun(false);
    result = train_attempt(std::move(next), file, observer, stop);
  }
  if (lost.size() > 1) result.warnings.insert(result.warnings.begin(), lost.begin(), lost.end() - 1);
  return result;
}

// Hosts may have been lost, too.
std::vector<std::string> settings_after_loss(const schema::Recipe& recipe) {
  const int64_t processes = earlier_attempts()->processes;
  if (processes == 0 || processes == recipe.num_processes) return {};
  const auto settings = schema::settings_for_processes(recipe, processes);
  RUN_CHECK(settings, ErrorKind::kRun,
            "{}; the hosts that answer have {} of {} processes, which cannot divide the samples of an optimizer step "
            "evenly; start the run on other hosts with `runner resume`",
            earlier_attempts()->lost.back(), processes, recipe.num_processes);
  return *settings;
}

// Prints a result, or reports it to the program that may restart the run.
void print_result(const train::RunResult& result, const Options& options, report::Output& out) {
  const std::string error =
      result.error ? with_store_option(report::error_text(result.error->text, out.talk_color()), options) : "";
  const std::string data =
      options.json ? document_with_store_option(report::run_document(result), options)
                   : with_store_option(report::summary_text(result, out.data_width(), out.data_color()), options);
  if (earlier_attempts() != nullptr) {
    const std::string message = result.error ? result.error->message : "";
    return send(report_of(EndedRun{result.exit_code, result.lost_process, message, error, data}));
  }
  out.colored_talk(error);
  out.colored_data(data);
}

int train_and_report(Attempt attempt, const Options& options, bool quiet, report::Output& out) {
  if (quiet) formats::set_reading_notice(nullptr);
  check_number_of_launched(attempt.recipe.recipe.num_processes);
  if (const train::MpiRanks* const ranks = launched_ranks())
    for (std::string& text : ranks->warnings()) attempt.start.warnings.push_back(std::move(text));
  const bool requeues = attempt.recipe.recipe.slurm.requeue;
  train::RunResult result;
  {
    Interrupt interrupt(out.live() ? Interrupt::Messages::kOnNewLine : Interrupt::Messages::kPlain);
    RunReporter observer(out, options, quiet, attempt, interrupt);
    RecordingPlace place(attempt, options);
    RecordingObserver recording(observer, place);
    result = train_with_restarts(std::move(attempt), options, place.file(), recording, interrupt);
    place.finish(result, observer);
  }
  print_result(result, options, out);
  if (requeues && result.status == store::RunStatus::kInterrupted && !result.states.empty()) {
    leave_launched(result.exit_code);
    if (result.error) {
      out.say("warning: the job is not requeued: the run is not completely in its store");
    } else {
      requeue_job(out);
    }
  }
  return result.exit_code;
}

}  // namespace

int report_finished(const store::RunDetails& run, const std::vector<std::string>& ignored, const Options& options,
                    report::Output& out) {
  out.say(fmt::format("run {} is already finished{}", run.run.uid,
                      ignored.empty() ? std::string() : fmt::format("; ignored {}", fmt::join(ignored, " "))));
  store::Store store = open_store(options);
  out.colored_data(options.json ? run.run.summary_json
                                : report::show_text(run, more_of(store, run.run), out.data_width(), out.data_color()));
  return 0;
}

std::optional<int> continue_lost_run(const train::ForkRequest* fork, const Options& options, bool quiet,
                                     report::Output& out) {
  const EarlierAttempts* const earlier = earlier_attempts();
  if (earlier == nullptr || earlier->run.empty()) return std::nullopt;
  try {
    ingest_left_spools(options, {.selector = earlier->run}, out);
    const store::RunDetails run = details_of(earlier->run, options);
    return about_run(run.run, [&] {
      Attempt attempt = attempt_to_continue(run, fork, options,
                                            settings_after_loss(recorded_recipe(run, store_path(options)).recipe));
      attempt.start.warnings.push_back(earlier->lost.back());
      return train_and_report(std::move(attempt), options, quiet, out);
    });
  } catch (const Error& error) {  // this process prints it; without a report, the launcher would try again
    send(report_of(EndedRun{exit_code(error.kind()), /*lost_process=*/false, error.message(), "", ""}));
    throw;
  }
}

int run_and_report(Attempt attempt, const Options& options, bool quiet, report::Output& out) {
  const train::RunOrigin& origin = attempt.start.origin;
  if (origin.resume.empty() && attempt.recipe.recipe.slurm.requeue)
    ingest_left_spools(options,
                       {.name = attempt.recipe.recipe.name,
                        .parent = origin.fork != nullptr ? origin.fork->run : "",
                        .may_be_running = true},
                       out);
  else if (origin.resume.empty() && origin.fork == nullptr)  // fork has ingested before it looked for the run
    note_left_spools(options, out);
  if (const auto run = run_before_requeue(attempt, options)) {
    if (run->run.status == store::RunStatus::kDone) return report_finished(*run, /*ignored=*/{}, options, out);
    attempt = attempt_to_continue(*run, attempt.start.origin.fork, options);
  }
  return train_and_report(std::move(attempt), options, quiet, out);
}

}  // namespace runner::cli
