#include "tests/cli/sample_store.h"

#include <cmath>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "store/run_store.h"
#include "store/run_writer.h"

namespace runner::cli::testing {
namespace {

store::RunInfo info_of(const char* uid, const char* name) {
  store::RunInfo info;
  info.uid = uid;
  info.name = name;
  info.seed = 42;
  info.attempt.recipe = {std::string(64, 'a'), "name: " + std::string(name) + "\n", R"({"seed": 42})",
                         R"({"seed": {"kind": "recipe", "file": "wine.yaml", "line": 3, "column": 7}})"};
  info.attempt.params = {{"optimizer.lr", 1e-3}, {"seed", int64_t{42}}};
  info.attempt.backend = "cpu";
  info.attempt.cpu_features = "avx2 fma";
  info.attempt.kernels_json = R"({"matmul f32": "onednn"})";
  info.attempt.binary_version = "0.1.0";
  return info;
}

store::StateSnapshot state_of(store::RunWriter& writer, int64_t step, bool pinned) {
  store::StateSnapshot snapshot = writer.snapshot();
  snapshot.header = {.step = step, .epoch = step / 2, .reason = "schedule", .pinned = pinned, .metrics = {}};
  snapshot.header.metrics.emplace_back("eval/loss", 0.5);
  const std::vector<std::byte> bytes(static_cast<size_t>(1000 * step));
  snapshot.add("model/0.weight", "{}", bytes);
  return snapshot;
}

void make_done_run(const std::filesystem::path& path) {
  store::RunWriter writer(store::Store::open(path, store::Access::kWrite), info_of("0000000aaa", "wine"));
  const store::SeriesIndex loss = writer.series("train/loss"), accuracy = writer.series("eval/accuracy");
  writer.push(loss, 1, 0.75);
  writer.push(loss, 2, NAN);
  writer.push(loss, 3, 0.1);
  writer.push(accuracy, 3, 0.9);
  writer.event(store::Level::kInfo, "early_stopping", R"({"step": 3})");
  writer.save_state(state_of(writer, 2, true)).get();
  writer.save_state(state_of(writer, 3, false)).get();
  const auto table = std::as_bytes(std::span(std::string_view("label,errors\n0,2\n")));
  writer.save_artifact({"tables/errors.csv", "table", "{}", 3}, std::vector(table.begin(), table.end())).get();
  writer.finish({.status = store::RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = R"({"run": "x"})"});
  store::Store store = store::Store::open(path, store::Access::kWrite);
  const int64_t id = writer.wait_until_recorded().id;
  store::add_tag(store, id, "baseline");
  store::add_note(store, id, "first try,\nby hand");
}

void make_failed_run(const std::filesystem::path& path) {
  store::Store store = store::Store::open(path, store::Access::kWrite);
  store::RunInfo info = info_of("0000000bbb", "digits");
  info.parent = "0000000aaa";
  info.attempt.params = {{"optimizer.lr", 0.5}, {"seed", int64_t{42}}};
  const store::RunHandle run = store::create_run(store, info);
  store::finish_run(store, run,
                    {.status = store::RunStatus::kFailed, .exit_code = 1, .reason = "loss is nan", .summary_json = ""});
}

void make_crashed_run(const std::filesystem::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    store::Store store = store::Store::open(path, store::Access::kWrite);
    store::create_run(store, info_of("0000000ccc", "digits"));
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

}  // namespace

void make_sample_store(const std::filesystem::path& path) {
  store::Store::open(path, store::Access::kWrite);
  make_done_run(path);
  make_failed_run(path);
  make_crashed_run(path);
}

}  // namespace runner::cli::testing
