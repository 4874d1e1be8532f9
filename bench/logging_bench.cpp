// Cost of logging in a training step: points of many metrics per step, through the recorder of a run into a store.
//
//     logging_bench [STEP_MS] [METRICS] [STEPS]      8 ms (MLP 784-1024-1024-10, batch 256), 50 metrics, 500 steps
//
// Then the same with log.csv, log.jsonl and log.tensorboard, and with a pipe without a reader instead of a file.
//
// A simulated model step takes STEP_MS and evicts the recorder from the caches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runner/train/run/log_files.h"
#include "runner/train/run/metric_recorder.h"
#include "store/store.h"

namespace {

using namespace runner;
using Clock = std::chrono::steady_clock;

double cpu_us(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double other_threads_us() {
  return cpu_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us(CLOCK_THREAD_CPUTIME_ID);
}

struct Costs {
  std::vector<double> log_us;  // by step, on the training thread
  double writer_us = 0;        // CPU time of the writer thread per step
  int64_t dropped = 0;
};

// `logs`: null if there are no log files.
Costs log_steps(const std::filesystem::path& path, double step_ms, size_t metrics, int64_t steps,
                train::LogFiles* logs) {
  store::RunInfo info;
  info.uid = store::new_run_uid();
  store::RunWriter writer(store::Store::open(path, store::Access::kWrite), info);
  if (logs != nullptr) logs->begin(info.uid, 1, 0);
  train::MetricRecorder recorder(&writer, logs);
  std::vector<std::string> names;
  for (size_t i = 0; i < metrics; ++i) names.push_back(fmt::format("train/norm of the gradient of layer {}", i));
  for (const std::string& name : names) recorder.add(name, 0, 0);
  writer.flush();

  std::vector<char> swept(size_t{64} << 20);
  Costs costs;
  const double before = other_threads_us();
  auto next = Clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(step_ms));
    for (size_t at = 0; at < swept.size() && Clock::now() < next; at += 64) ++swept[at];
    std::this_thread::sleep_until(next);
    const auto start = Clock::now();
    for (const std::string& name : names) recorder.add(name, step, 1.0 / static_cast<double>(step));
    if (logs != nullptr) logs->hand_over();
    costs.log_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  costs.writer_us = (other_threads_us() - before) / static_cast<double>(steps);
  costs.dropped = writer.counters().dropped;
  writer.finish({.status = store::RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = "{}"});
  return costs;
}

void print(const char* what, Costs costs, double step_ms) {
  std::sort(costs.log_us.begin(), costs.log_us.end());
  const double median = costs.log_us[costs.log_us.size() / 2], slowest = costs.log_us.back();
  const auto share = [&](double us) { return us / (step_ms * 10); };
  std::printf("%s, %ld points dropped by the store\n", what, static_cast<long>(costs.dropped));
  std::printf("training thread  %8.2f us a step  %6.3f %%   (slowest step %.2f us)\n", median, share(median), slowest);
  std::printf("other threads    %8.2f us a step  %6.3f %% of a core\n", costs.writer_us, share(costs.writer_us));
  std::printf("together         %8.2f us a step  %6.3f %%   (limit 1 %%)\n", median + costs.writer_us,
              share(median + costs.writer_us));
}

}  // namespace

int main(int argc, char** argv) {
  const double step_ms = argc > 1 ? std::atof(argv[1]) : 8;
  const auto metrics = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 50);
  const int64_t steps = argc > 3 ? std::atoi(argv[3]) : 500;
  std::string folder = (std::filesystem::temp_directory_path() / "runner_bench_XXXXXX").string();
  if (step_ms <= 0 || steps <= 0 || mkdtemp(folder.data()) == nullptr) return 2;
  const std::filesystem::path root(folder);
  std::printf("%zu metrics at each of %ld steps of %g ms\n", metrics, static_cast<long>(steps), step_ms);
  print("the store alone", log_steps(root / "runner.db", step_ms, metrics, steps, nullptr), step_ms);
  schema::LogSpec spec;
  spec.csv = root / "points.csv";
  spec.jsonl = root / "points.jsonl";
  spec.tensorboard = root / "events";
  {
    train::LogFiles logs(spec);
    print("with three logs", log_steps(root / "logs.db", step_ms, metrics, steps, &logs), step_ms);
  }
  spec.jsonl = root / "pipe";
  if (mkfifo(spec.jsonl.c_str(), 0600) != 0) return 2;
  train::LogFiles logs(spec);
  print("with three logs, one without a reader", log_steps(root / "pipe.db", step_ms, metrics, steps, &logs), step_ms);
  std::filesystem::remove_all(folder);
}
