#include "runner/train/run/run.h"

#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "backends/dist/rank_error.h"
#include "runner/train/run/mpi_ranks.h"
#include "runner/train/run/rank_processes.h"
#include "runner/train/run/rank_run.h"
#include "runner/train/run/rank_threads.h"
#include "runner/train/run/run_data.h"
#include "runner/train/step/device_rules.h"
#include "schema/base/error.h"
#include "schema/base/secrets.h"
#include "schema/base/system_limits.h"
#include "schema/base/unrecorded.h"
#include "schema/recipe/field_words.h"

namespace runner::train {

namespace {

RunResult run_with_processes(RunRequest request) {
  constexpr int kMany = 64;  // takes a second
  const auto processes = static_cast<int>(request.recipe.num_processes);
  if (processes >= kMany) {
    for (const std::string& text : request.warnings) request.observer.on_warning(hide_secrets(text));
    request.warnings_are_shown = true;
    request.observer.on_notice(fmt::format("starting {} processes", processes));
  }
  RankProcesses ranks(processes, {.job = request.rank_start.job,
                                  .timeout = collective_timeout(request.recipe),
                                  .program = request.rank_start.program,
                                  .stop = &request.stop});
  try {
    RankRun run(request, &ranks.group());
    RUN_CHECK(ranks.launcher().begin(), ErrorKind::kInterrupted, kInterruptedAtStart);
    RunResult result = run.execute();
    result.lost_process = result.error && ranks.launcher().lost_one();
    if (!result.error) ranks.launcher().finish();
    return result;
  } catch (const Error&) {
    RUN_CHECK(!ranks.launcher().stopped_at_start(), ErrorKind::kInterrupted,
              "interrupted while starting {} processes; nothing was recorded", processes);
    throw;
  }
}

// Emulated devices share one process, which has one copy of the data.
RunResult run_with_threads(RunRequest request) {
  request.data = data_of(request, /*ranks=*/nullptr);
  RankThreads threads(static_cast<int>(request.recipe.num_processes), collective_timeout(request.recipe),
                      [&](backends::ProcessGroup& ranks) { request.rank_start.follow(request, ranks); });
  std::optional<RankRun> run;
  try {
    run.emplace(request, &threads.group());
  } catch (const Error&) {
    // The first rank to notice the stop has reported it as a failure to the others.
    RUN_CHECK(request.stop == 0, ErrorKind::kInterrupted, kInterruptedAtStart);
    throw;
  }
  return run->execute();
}

// The other ranks are there already and wait for their job.
RunResult run_with_mpi(const RunRequest& request, MpiRanks& ranks) {
  ranks.share_job(request.rank_start.job, request.stop);
  backends::ProcessGroup& group = begin_run_with(ranks, request.recipe);
  try {
    RunResult result = RankRun(request, &group).execute();
    if (result.error) group.fail(result.error->message, {});  // no effect if another rank has failed first
    result.lost_process = result.error && ranks.has_lost_process();
    return result;
  } catch (const std::exception& error) {
    const Error reason = error_of(error);
    group.fail(reason.text(), reason.where());
    throw;
  }
}

}  // namespace

backends::ProcessGroup& begin_run_with(MpiRanks& ranks, const schema::Recipe& recipe) {
  return ranks.begin_run(collective_timeout(recipe), device_rules(recipe).ranks_are_processes);
}

RunResult run(const RunRequest& request) {
  return unrecorded([&] {
    if (request.rank_start.mpi != nullptr) return run_with_mpi(request, *request.rank_start.mpi);
    if (request.recipe.num_processes == 1) return RankRun(request).execute();
    return device_rules(request.recipe).ranks_are_processes ? run_with_processes(request) : run_with_threads(request);
  });
}

void run_rank(const RunRequest& request, backends::ProcessGroup& ranks) {
  std::optional<RankRun> run;
  const auto fail = [&](std::string_view text, const SourceMark& where) {
    const std::string place = run ? fmt::format(", after {}", schema::length_text(run->step(), "steps")) : "";
    ranks.fail(fmt::format("{}{}: {}", ranks.name(), place, text), where);
  };
  try {
    run.emplace(request, &ranks);
    run->follow();
  } catch (const backends::RankError&) {
    throw;
  } catch (const Error& error) {
    fail(error.text(), error.where());
    throw;
  } catch (const std::exception& error) {
    fail(error_of(error).message(), {});
    throw;
  }
}

}  // namespace runner::train
