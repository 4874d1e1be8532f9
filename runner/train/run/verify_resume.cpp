#include "runner/train/run/verify_resume.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/train/run/child_watch.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "store/queries.h"
#include "store/state_store.h"

namespace runner::train {
namespace {

constexpr const char* kTiming = "train/samples_per_s";  // the only metric that may differ

bool has_state(const std::filesystem::path& path) {
  store::Store store = store::Store::open(path, store::Access::kRead);
  const std::vector<store::RunRow> runs = store::list_runs(store, 1);
  return !runs.empty() && !store::list_states(store, runs[0].id, true).empty();
}

// Kills the process after a given step, or the first later one for which there is a checkpoint to resume from.
class Killer : public Observer {
 public:
  // Writes the step to the file `told`.
  Killer(int64_t step, const std::filesystem::path& store, const std::filesystem::path& step_file)
      : step_(step), store_(store), step_file_(step_file) {}

  void on_step(const RunProgress& progress) override {
    if (step_ == kNever || progress.step < step_ || !has_state(store_)) return;
    std::ofstream(step_file_) << progress.step;
    std::raise(SIGKILL);
  }

  static constexpr int64_t kNever = 0;

 private:
  const int64_t step_;
  const std::filesystem::path &store_, &step_file_;
};

// Steps between two checkpoints, so that there are several between two kills.
int64_t state_interval(int64_t steps) {
  return std::max<int64_t>(1, steps / 16);
}

// Turns off log files and output other than the two stores, since the runs are only compared. Traces are still made,
// because they involve collectives.
schema::Recipe unwatched(schema::Recipe recipe) {
  const schema::LogSpec log = recipe.log;
  recipe.log = {};
  recipe.log.every = log.every;
  recipe.log.grad_norm = log.grad_norm;
  if (recipe.profile) recipe.profile->out.clear();
  return recipe;
}

// Size of the uninterrupted training.
struct Extent {
  int64_t steps = 0, samples = 0;
};

// Returns an interval just short of a number of optimizer steps, so that some checkpoints are within one, if possible;
// otherwise steps. Optimizer steps may have fewer batches than gradient_accumulation_steps, at the end of an epoch.
schema::Length interval_between_states(const schema::Recipe& recipe, const Extent& extent) {
  const int64_t steps = state_interval(extent.steps);
  const int64_t batch = recipe.data.batch_size * (recipe.split_batches ? 1 : recipe.num_processes);
  if (recipe.gradient_accumulation_steps == 1 || extent.samples <= extent.steps * batch)
    return {steps, schema::Unit::kSteps};
  return {std::max<int64_t>(1, steps * extent.samples / extent.steps - batch), schema::Unit::kSamples};
}

// Keeps every checkpoint.
schema::Recipe watched(const schema::Recipe& recipe, const Extent& extent) {
  schema::Recipe copy = unwatched(recipe);
  copy.checkpoint = {};
  copy.checkpoint.every = interval_between_states(recipe, extent);
  return copy;
}

class Verifier {
 public:
  explicit Verifier(const VerifyRequest& request)
      : request_(request),
        recipe_(unwatched(request.recipe)),
        failure_(request.folder / "failure"),
        killed_(request.folder / "killed") {}

  VerifyReport run() {
    const std::filesystem::path whole = request_.folder / "whole.db", parts = request_.folder / "parts.db";
    report_.kills = request_.kills;
    request_.progress("uninterrupted training");
    train_or_fail(whole, "the uninterrupted training");
    const Extent extent = extent_of(whole);
    report_.steps = extent.steps;
    recipe_ = watched(request_.recipe, extent);
    request_.progress(fmt::format("training {} step{} with {} kill{}", report_.steps, report_.steps == 1 ? "" : "s",
                                  request_.kills, request_.kills == 1 ? "" : "s"));
    train_in_parts(parts);
    RUN_CHECK(!report_.killed_at.empty() && !report_.resumed_from.empty(), ErrorKind::kRun,
              "nothing was resumed: the run has {} step{}, but a kill needs a state before it; use a longer run",
              report_.steps, report_.steps == 1 ? "" : "s");
    compare_states(whole, parts);
    compare_points(whole, parts);
    return std::move(report_);
  }

 private:
  // Trains in a child process that is killed after `kill_at` (see Killer). Returns the child's wait status.
  int train(const std::filesystem::path& store, int64_t kill_at) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    RUN_CHECK(child >= 0, ErrorKind::kRun, "cannot start a process: {}", std::strerror(errno));
    if (child == 0) {
      watch_.enter_child(parent);
      _exit(train_here(store, kill_at));
    }
    return watch_.wait(child);
  }

  int train_here(const std::filesystem::path& store, int64_t kill_at) {
    Killer killer(kill_at, store, killed_);
    const std::atomic<int> stop{0};
    const bool resumes = store::store_exists(store) && has_state(store);
    try {
      const RunResult result = train::run({.recipe = recipe_,
                                           .origin = {.resume = resumes ? "@last" : ""},
                                           .recording = {.store = store,
                                                         .recipe = request_.record,
                                                         .params = request_.params,
                                                         .summary = request_.summary,
                                                         .metrics_document = request_.metrics_document,
                                                         .has_batch_digests = true},
                                           .rank_start = {.job = request_.job, .follow = request_.follow},
                                           .make_hooks = request_.make_hooks,
                                           .observer = killer,
                                           .stop = stop});
      if (const auto& error = result.error) write_failure({error->file, error->line, 0}, error->message);
      return result.exit_code;
    } catch (const Error& error) {
      write_failure(error.where(), error.text());
      return exit_code(error.kind());
    } catch (const std::exception& error) {  // an exception must not propagate into the parent's stack frames
      write_failure({}, error.what());
      return exit_code(ErrorKind::kRun);
    }
  }

  // Called in the child. Writes file, line and message, one per line.
  void write_failure(const SourceMark& where, std::string_view message) const {
    std::ofstream(failure_) << where.file << '\n' << where.line << '\n' << message;
  }

  // The inverse of write_failure().
  std::pair<SourceMark, std::string> read_failure() const {
    const std::string text = read_file(failure_).value_or("");
    const size_t line = text.find('\n') + 1, message = text.find('\n', line) + 1;
    return {{text.substr(0, line - 1), std::atoi(text.c_str() + line), 0}, text.substr(message)};
  }

  // Throws the error of a child that has not ended by itself with 0, or by `expected_signal`.
  void check_child(int status, std::string_view what, int expected_signal) const {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFSIGNALED(status)) {
      RUN_CHECK(WTERMSIG(status) == expected_signal, ErrorKind::kRun, "{} was killed by signal {}", what,
                WTERMSIG(status));
      return;
    }
    const auto [where, message] = read_failure();
    throw Error(WEXITSTATUS(status) == exit_code(ErrorKind::kData) ? ErrorKind::kData : ErrorKind::kRun,
                fmt::format("{} failed: {}", what, message), where);
  }

  void train_or_fail(const std::filesystem::path& store, std::string_view what) {
    check_child(train(store, Killer::kNever), what, /*expected_signal=*/0);
  }

  void train_in_parts(const std::filesystem::path& store) {
    for (int64_t kill = 1; kill <= request_.kills; ++kill) {
      // A save waits for the previous one, so after two saves one is committed.
      const int64_t at = std::max(2 * state_interval(report_.steps), report_.steps * kill / (request_.kills + 1));
      if (!report_.killed_at.empty() && at <= report_.killed_at.back()) continue;  // more kills than steps
      const int status = train(store, at);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;  // finished before it was killed
      check_child(status, "the resumed training", SIGKILL);
      std::ifstream(killed_) >> report_.killed_at.emplace_back();
      request_.progress(fmt::format("killed after step {}", report_.killed_at.back()));
    }
    train_or_fail(store, "the resumed training");
    store::Store opened = store::Store::open(store, store::Access::kRead);
    for (const store::AttemptRow& attempt : store::show_run(opened, store::find_run(opened, "@last")).attempts)
      if (attempt.from_state) report_.resumed_from.push_back(attempt.start_step);
  }

  static Extent extent_of(const std::filesystem::path& path) {
    store::Store store = store::Store::open(path, store::Access::kRead);
    const json::Value summary = json::parse(store::find_run(store, "@last").summary_json);
    const auto number = [&](const char* name) { return json::integer_of(json::member(summary, name)).value_or(0); };
    return {.steps = number("optimizer_steps"), .samples = number("samples")};
  }

  static store::LoadedState last_state(const std::filesystem::path& path) {
    store::Store store = store::Store::open(path, store::Access::kRead);
    const std::vector<store::StateInfo> states = store::list_states(store, store::find_run(store, "@last").id, true);
    RUN_CHECK(!states.empty(), ErrorKind::kRun, "{} has no state", path.string());
    return store::load_state(store, states.front().id);
  }

  void differ(std::string text) { report_.differences.push_back(std::move(text)); }

  void compare_states(const std::filesystem::path& whole, const std::filesystem::path& parts) {
    const store::LoadedState a = last_state(whole), b = last_state(parts);
    if (a.info.step != b.info.step) differ(fmt::format("last step: {} and {}", a.info.step, b.info.step));
    if (a.sections.size() != b.sections.size())
      differ(fmt::format("number of sections: {} and {}", a.sections.size(), b.sections.size()));
    for (const store::Section& section : a.sections) {
      ++report_.tensors;
      report_.bytes += std::ssize(section.bytes);
      const store::Section* other = b.find(section.name);
      if (!other || other->bytes != section.bytes) differ(fmt::format("state: {} differs", section.name));
    }
  }

  using Points = std::map<std::string, std::vector<store::Point>>;

  static Points points_of(const std::filesystem::path& path) {
    store::Store store = store::Store::open(path, store::Access::kRead);
    const store::RunRow run = store::find_run(store, "@last");
    Points points;
    for (const store::MetricSummary& metric : store::list_metrics(store, run.id))
      if (metric.name != kTiming) points[metric.name] = store::metric_points(store, run, metric.name);
    return points;
  }

  void compare_points(const std::filesystem::path& whole, const std::filesystem::path& parts) {
    const Points a = points_of(whole), b = points_of(parts);
    for (const auto& [name, points] : a) {
      const auto other = b.find(name);
      if (other == b.end()) {
        differ(fmt::format("metric {} is missing", name));
        continue;
      }
      compare_series(name, points, other->second);
      (name == kBatchDigest ? report_.batches : report_.points) += std::ssize(points);
    }
    if (a.size() != b.size()) differ(fmt::format("number of metrics: {} and {}", a.size(), b.size()));
  }

  void compare_series(const std::string& name, const std::vector<store::Point>& a, const std::vector<store::Point>& b) {
    const auto same = [](const store::Point& x, const store::Point& y) {
      return x.step == y.step && std::bit_cast<int64_t>(x.value) == std::bit_cast<int64_t>(y.value);
    };
    const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), same);
    if (x != a.end() && y != b.end()) {
      differ(fmt::format("metric {} first differs at step {}: {} and {} at step {}", name, x->step, x->value, y->value,
                         y->step));
    } else if (a.size() != b.size()) {
      differ(fmt::format("metric {}: {} and {} points", name, a.size(), b.size()));
    }
  }

  const VerifyRequest& request_;
  schema::Recipe recipe_;
  // Files in which a child reports its failure, and the step at which it was killed.
  const std::filesystem::path failure_, killed_;
  const ChildWatch watch_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_resume(const VerifyRequest& request) {
  return Verifier(request).run();
}

}  // namespace runner::train
