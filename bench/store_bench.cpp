// The store: ingest through the live path, size, curves and lists, each compared with a plain SQLite table of points
// with the same settings, or with the start-up time of a process.
//
//     store_bench [RUNS] [POINTS]      10000 runs to list, and ten times as many, in a store each; 1e7 points (20
//                                      metrics of 5,000 points per run)
//
// Runs the `runner` in its own folder. Curves and lists are warm: the best of several repetitions.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/metric_tables.h"
#include "store/queries.h"
#include "store/run_writer.h"
#include "store/sqlite.h"

namespace {

using namespace runner;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMetrics = 20;
constexpr int64_t kSteps = 5000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Milliseconds of the best of `repeats` calls.
template <class Work>
double best_ms(int repeats, Work work) {
  double best = INFINITY;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start) * 1e3);
  }
  return best;
}

void print(const char* what, double value, const char* unit, const char* goal, const std::string& peer) {
  std::printf("%-46s %10.3g %-12s %-14s %s\n", what, value, unit, goal, peer.c_str());
  std::fflush(stdout);
}

// Metrics as training logs them: losses that decrease and fluctuate, a learning rate that follows a schedule, norms,
// samples per second.
class Values {
 public:
  double at(int metric, int64_t step) {
    const double t = static_cast<double>(step) / kSteps;
    switch (metric % 4) {
      case 0: return 2.3 * std::exp(-3 * t) + 0.05 * noise_(random_);
      case 1: return 1e-3 * (step < 500 ? static_cast<double>(step) / 500 : 0.5 + 0.5 * std::cos(3.14159265 * t));
      case 2: return std::exp(0.3 * noise_(random_));
      default: return 350'000 * (1 + 0.05 * noise_(random_));
    }
  }

 private:
  std::mt19937_64 random_{42};
  std::normal_distribution<double> noise_;
};

std::string name_of(int metric) {
  return fmt::format("train/metric {}", metric);
}

// ---- ours ----------------------------------------------------------------------------------------------------------

store::RunInfo run_info(int number) {
  store::RunInfo info;
  info.uid = fmt::format("{:010}", number);
  info.name = fmt::format("run {}", number);
  info.attempt.recipe = {"hash", "name: bench\n", R"({"name": "bench"})", "{}"};
  info.attempt.params = {{"optimizer.lr", 1e-3 * number}, {"train.epochs", int64_t{3}}};
  info.attempt.backend = "cpu";
  info.attempt.cpu_features = "AuthenticAMD family 26 model 2: avx2 fma avx512 avx512_bf16";
  info.attempt.kernels_json = R"({"instructions": "avx512", "products_f32": "oneDNN", "products_bf16": "native"})";
  return info;
}

const store::RunEnd kDone{.status = store::RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = "{}"};

// Pushes as fast as the writer takes points and returns the seconds until all are committed.
double record(const fs::path& path, int number) {
  store::RunWriter writer(store::Store::open(path, store::Access::kWrite), run_info(number));
  std::vector<store::SeriesIndex> series;
  for (int metric = 0; metric < kMetrics; ++metric) series.push_back(writer.series(name_of(metric)));
  Values values;
  std::vector<double> made;
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (int metric = 0; metric < kMetrics; ++metric) made.push_back(values.at(metric, step));
  }
  writer.wait_until_recorded();
  const auto start = Clock::now();
  size_t next = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (const store::SeriesIndex index : series) {
      while (!writer.push(index, step, made[next])) std::this_thread::yield();
      ++next;
    }
  }
  writer.flush();
  const double seconds = seconds_since(start);
  writer.finish(kDone);
  return seconds;
}

// ---- the peer: a row for each point ---------------------------------------------------------------------------------

struct Peer {
  double points_per_s, bytes_per_point, curve_ms;
};

Peer measure_peer(const fs::path& path) {
  constexpr int kRuns = 10;
  store::Database database(path, store::OpenMode::kCreate);
  database.configure();
  database.query_text("PRAGMA journal_mode = WAL");
  database.exec(
      "CREATE TABLE point(run INTEGER, metric TEXT, step INTEGER, time_ms INTEGER, value REAL);"
      "CREATE INDEX point_by_step ON point(run, metric, step)");
  store::Statement insert(database, "INSERT INTO point VALUES(?1, ?2, ?3, ?4, ?5)");
  Values values;
  const auto start = Clock::now();
  for (int run = 0; run < kRuns; ++run) {
    for (int64_t step = 1; step <= kSteps;) {
      store::Transaction transaction(database, store::Transaction::Kind::kWrite);
      for (const int64_t end = step + 100; step < end; ++step) {  // 2,000 points per commit
        for (int metric = 0; metric < kMetrics; ++metric)
          insert.bind(run, name_of(metric), step, 1'700'000'000'000 + step, values.at(metric, step)).run();
      }
      transaction.commit();
    }
  }
  database.query_int64("PRAGMA wal_checkpoint(TRUNCATE)");
  const double points = 1.0 * kRuns * kMetrics * kSteps;
  Peer peer{points / seconds_since(start), static_cast<double>(fs::file_size(path)) / points, 0};
  store::Statement curve(database, "SELECT step, value FROM point WHERE run = ?1 AND metric = ?2 ORDER BY step");
  peer.curve_ms = best_ms(20, [&] {
    double sum = 0;
    for (curve.bind(5, name_of(7)); curve.step();) sum += curve.real(1);
    if (std::isnan(sum)) std::abort();
  });
  return peer;
}

// ---- points ---------------------------------------------------------------------------------------------------------

void measure_points(const fs::path& folder, int64_t points) {
  const Peer peer = measure_peer(folder / "peer.db");
  const fs::path path = folder / "points.db";
  const auto runs = static_cast<int>(points / (kMetrics * kSteps));
  double seconds = 0;
  for (int run = 0; run < runs; ++run) seconds += record(path, run);
  const double recorded = 1.0 * runs * kMetrics * kSteps;
  print("ingest, push to committed and synced", recorded / seconds / 1e6, "M points/s", ">= 0.5",
        fmt::format("row a point: {:.2f}", peer.points_per_s / 1e6));
  print("size of the file", static_cast<double>(fs::file_size(path)) / recorded, "bytes/point", "<= 24",
        fmt::format("row a point: {:.0f}", peer.bytes_per_point));

  store::Store store = store::Store::open(path, store::Access::kRead);
  std::mt19937 random(7);
  double slowest = 0;
  size_t size = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string run = fmt::format("run {}", random() % static_cast<unsigned>(runs));
    const std::string metric = name_of(static_cast<int>(random() % kMetrics));
    slowest = std::max(
        slowest, best_ms(5, [&] { size = store::metric_points(store, store::find_run(store, run), metric).size(); }));
  }
  if (size != static_cast<size_t>(kSteps)) std::abort();
  print("curve of 5,000 points, slowest of 50", slowest, "ms", "< 10",
        fmt::format("row a point: {:.2f}", peer.curve_ms));
  const std::string sql =
      fmt::format("SELECT step, value FROM points WHERE name = 'run {}' AND metric = '{}'", runs / 2, name_of(3));
  const double opened = best_ms(10, [&] { store::sql_query(path, "SELECT 1"); });
  const double whole = best_ms(1, [&] { store::sql_query(path, "SELECT count(*), avg(value) FROM points"); });
  print("count and mean of all points, per 1e7", whole / 1e3 / recorded * 1e7, "s", "<= 10", "");
  print("the same through `points` and a new connection", best_ms(10, [&] { store::sql_query(path, sql); }), "ms",
        "< 10", fmt::format("SELECT 1: {:.2f}", opened));
}

// ---- lists ----------------------------------------------------------------------------------------------------------

double process_ms(const fs::path& program, const std::vector<std::string>& words) {
  return best_ms(20, [&] {
    std::vector<char*> arguments{const_cast<char*>(program.c_str())};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    int status = 0;
    if (::posix_spawn(&child, program.c_str(), &files, nullptr, arguments.data(), environ) != 0) std::abort();
    ::waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    if (status != 0) std::abort();
  });
}

void make_runs(const fs::path& path, int runs) {
  store::Store store = store::Store::open(path, store::Access::kWrite);
  store.database().exec("PRAGMA synchronous = OFF");
  for (int number = 0; number < runs; ++number) {
    const store::RunHandle run = store::create_run(store, run_info(number));
    store::Transaction transaction(store.database(), store::Transaction::Kind::kWrite);
    store::MetricTables tables(store.database());
    for (const char* metric : {"train/loss", "train/lr", "train/samples_per_s", "eval/loss", "eval/accuracy"}) {
      store::MetricSummary summary;
      summary.name = metric;
      summary.add({1, 1, 0.001 * number});
      tables.put_summary(run.id, summary);
    }
    if (number % 10 == 0) store::add_tag(store, run.id, "tenth");
    transaction.commit();
    if (number % 1000 == 0) store.checkpoint(1);
  }
  // Like finish_run(), which syncs each time.
  store::Statement(store.database(),
                   "UPDATE attempt SET status = 'done', exit_code = 0, summary = ?1, ended_ms = heartbeat_ms")
      .bind(std::string(1300, 's'))  // of a run with six metrics and three checkpoints
      .run();
  store.checkpoint(1);
}

void measure_lists(const fs::path& folder, const fs::path& runner, int runs) {
  const fs::path path = folder / fmt::format("{}_runs.db", runs);
  make_runs(path, runs);
  store::Store store = store::Store::open(path, store::Access::kRead);
  size_t found = 0;
  const double query = best_ms(10, [&] { found = store::list_runs(store).size(); });
  if (found != static_cast<size_t>(runs)) std::abort();
  const double rows = best_ms(10, [&] {
    store::Statement all(store.database(), "SELECT * FROM run JOIN attempt ON run_id = run.id AND no = attempts");
    while (all.step()) static_cast<void>(all.int64(0));
  });
  print(fmt::format("list of {} runs, query", runs).c_str(), query, "ms", "",
        fmt::format("two tables joined: {:.1f}", rows));
  const double version = process_ms(runner, {"--version"});
  const std::string peer = fmt::format("process alone: {:.1f}", version);
  print("`runner ls`, whole process", process_ms(runner, {"ls", "--db", path.string()}), "ms",
        runs <= 10'000 ? "< 30" : "< 500", peer);
  print("`runner ls --json`, whole process", process_ms(runner, {"ls", "--json", "--db", path.string()}), "ms", "",
        peer);
  print("`runner ls --limit 20`, whole process", process_ms(runner, {"ls", "--limit", "20", "--db", path.string()}),
        "ms", "", peer);
  for (const char* where : {"best(eval/accuracy) > 9.99", "optimizer.lr < 0.01 and tag = tenth", "status = done"}) {
    print(fmt::format("`runner ls --where '{}'`", where).c_str(),
          process_ms(runner, {"ls", "--where", where, "--db", path.string()}), "ms", "", peer);
  }
  print("`runner ls --sort optimizer.lr`", process_ms(runner, {"ls", "--sort", "optimizer.lr", "--db", path.string()}),
        "ms", "", peer);
  print("`runner ls --columns optimizer.lr,eval/loss`",
        process_ms(runner, {"ls", "--columns", "optimizer.lr,eval/loss", "--db", path.string()}), "ms", "", peer);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const auto points = static_cast<int64_t>(argc > 2 ? std::atof(argv[2]) : 1e7);
  std::string folder = (fs::temp_directory_path() / "runner_bench_XXXXXX").string();
  if (runs <= 0 || points < int64_t{2} * kMetrics * kSteps || mkdtemp(folder.data()) == nullptr) return 2;
  std::printf("%-46s %10s %-12s %-14s %s\n", "", "", "", "goal", "peer or floor");
  const fs::path runner = fs::absolute(argv[0]).parent_path() / "runner";
  for (const int count : {runs, 10 * runs}) measure_lists(folder, runner, count);
  measure_points(folder, points);
  fs::remove_all(folder);
}
