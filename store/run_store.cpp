#include "store/run_store.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <unistd.h>

#include "schema/base/clock.h"
#include "store/content.h"
#include "store/log_room.h"
#include "store/metric_tables.h"
#include "store/process.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

constexpr std::array<std::string_view, 5> kStatusNames{"running", "done", "failed", "interrupted", "crashed"};

// Crockford's base 32: without i, l, o and u, so that ids can be read aloud.
constexpr std::string_view kBase32 = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr int64_t kEpochMs = 1'735'689'600'000;  // 2025-01-01 UTC

const char* type_name(const Param::Value& value) {
  constexpr std::array kNames{"null", "bool", "int", "float", "text"};
  return kNames[value.index()];
}

int64_t put_recipe(Database& database, const RecipeRecord& recipe) {
  const Sha256Digest digest = digest_of(recipe);
  Statement(
      database,
      "INSERT INTO recipe(digest, hash, text, resolved, origins) VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING")
      .bind(bytes_of(digest), recipe.hash, recipe.text, recipe.resolved_json, recipe.origins_json)
      .run();
  Statement id(database, "SELECT id FROM recipe WHERE digest = ?1");
  id.bind(bytes_of(digest)).step();
  return id.int64(0);
}

void put_params(Database& database, int64_t run_id, const std::vector<Param>& params) {
  Statement(database, "DELETE FROM param WHERE run_id = ?1").bind(run_id).run();
  Statement insert(database, "INSERT INTO param(run_id, key, type, value) VALUES(?1, ?2, ?3, ?4)");
  for (const Param& param : params) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
            insert.bind(run_id, param.key, type_name(param.value), nullptr).run();
          } else {
            insert.bind(run_id, param.key, type_name(param.value), value).run();
          }
        },
        param.value);
  }
}

void put_attempt(Store& store, const RunHandle& run, const AttemptInfo& info, int64_t superseded_points) {
  Database& database = store.database();
  const Process& process = this_process();
  Statement(database, R"sql(
    INSERT INTO attempt(run_id, no, recipe_id, start_step, from_state, backend, num_processes, cpu_features, kernels,
      binary_version, host, pid, pid_start, boot_id, pid_namespace, started_ms, heartbeat_ms, status, superseded_points,
      planned_steps)
    VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, 'running', ?17, ?18))sql")
      .bind(run.id, run.attempt, put_recipe(database, info.recipe), info.start_step, info.from_state, info.backend,
            info.num_processes, info.cpu_features, info.kernels_json, info.binary_version, process.host, process.pid,
            process.start_ticks, process.boot_id, process.pid_namespace, info.started_ms, superseded_points,
            info.planned_steps)
      .run();
  put_params(database, run.id, info.params);
  if (info.provenance) put_provenance(store, run, *info.provenance);
}

std::optional<int64_t> parent_id(Database& database, const std::string& uid) {
  if (uid.empty()) return std::nullopt;
  Statement id(database, "SELECT id FROM run WHERE uid = ?1");
  if (!id.bind(uid).step()) fail(ErrorKind::kNotFound, "no run {} in {} to fork from", uid, database.path().string());
  return id.int64(0);
}

}  // namespace

std::string_view to_string(RunStatus status) {
  return kStatusNames[static_cast<size_t>(status)];
}

std::string new_run_uid() {
  // High bits: a millisecond that this process has not used before. Low 10 bits: process id.
  static std::atomic<int64_t> newest = 0;
  int64_t before = newest, now = 0;
  do now = std::max(now_ms() - kEpochMs, before + 1);
  while (!newest.compare_exchange_weak(before, now));
  uint64_t bits = static_cast<uint64_t>(now) << 10 | (static_cast<uint64_t>(getpid()) & 0x3ff);
  std::string uid(10, '0');
  for (size_t i = uid.size(); i-- > 0; bits >>= 5) uid[i] = kBase32[bits & 31];
  return uid;
}

Sha256Digest digest_of(const RecipeRecord& recipe) {
  Sha256 sha;
  for (const std::string* text : {&recipe.hash, &recipe.text, &recipe.resolved_json, &recipe.origins_json}) {
    sha.update(*text).update(std::string_view("\0", 1));
  }
  return sha.finish();
}

RunHandle create_run(Store& store, const RunInfo& info) {
  Database& database = store.database();
  store.sync_new_file();
  Transaction transaction(database, Transaction::Kind::kWrite);
  Statement(database, "INSERT INTO run(uid, name, parent_id, seed, created_ms, attempts) VALUES(?1, ?2, ?3, ?4, ?5, 1)")
      .bind(info.uid, info.name, parent_id(database, info.parent), info.seed, info.attempt.started_ms)
      .run();
  RunHandle run{database.last_insert_id(), 1, info.uid};
  put_attempt(store, run, info.attempt, 0);
  commit_with_room(database, transaction);
  return run;
}

RunHandle begin_attempt(Store& store, std::string_view uid, const AttemptInfo& info) {
  Database& database = store.database();
  Transaction transaction(database, Transaction::Kind::kWrite);
  Statement row(database, "SELECT id, attempts, trashed_ms FROM run WHERE uid = ?1");
  if (!row.bind(uid).step()) fail(ErrorKind::kNotFound, "no run {} in {}", uid, database.path().string());
  if (!row.is_null(2)) fail_trashed(uid);  // it may have been moved to the trash after the lookup
  RunHandle run{row.int64(0), row.int64(1) + 1, std::string(uid)};
  row.reset();
  check_not_running(store, run.id, "resume");
  Statement(database, "UPDATE run SET attempts = ?2 WHERE id = ?1").bind(run.id, run.attempt).run();
  put_attempt(store, run, info, MetricTables(database).take_back(run.id, {info.start_step, info.start_ms}));
  for (const char* table : {"state", "artifact"}) {
    Statement(database, fmt::format("UPDATE {} SET superseded = 1 WHERE run_id = ?1 AND step > ?2", table))
        .bind(run.id, info.start_step)
        .run();
  }
  commit_with_room(database, transaction);
  return run;
}

void fail_trashed(std::string_view uid) {
  fail(ErrorKind::kNotFound, "run {} is in the trash; `runner restore {}` restores it", uid, uid);
}

void finish_run(Store& store, const RunHandle& run, const RunEnd& end, std::optional<int64_t> dropped_points) {
  RUN_ASSERT(end.status != RunStatus::kRunning && end.status != RunStatus::kCrashed);
  Transaction transaction(store.database(), Transaction::Kind::kWrite, /*durable=*/true);
  Statement(
      store.database(),
      "UPDATE attempt SET status = ?3, exit_code = ?4, reason = ?5, summary = ?6, ended_ms = ?7, heartbeat_ms = ?7, "
      "dropped_points = coalesce(?8, dropped_points) WHERE run_id = ?1 AND no = ?2")
      .bind(run.id, run.attempt, to_string(end.status), end.exit_code, end.reason, end.summary_json, now_ms(),
            dropped_points)
      .run();
  transaction.commit();
}

void heartbeat(Store& store, const RunHandle& run, int64_t dropped_points) {
  Statement(store.database(), "UPDATE attempt SET heartbeat_ms = ?3, dropped_points = ?4 WHERE run_id = ?1 AND no = ?2")
      .bind(run.id, run.attempt, now_ms(), dropped_points)
      .run();
}

void check_not_running(Store& store, int64_t run_id, std::string_view action) {
  Statement row(
      store.database(),
      "SELECT a.host, a.boot_id, a.pid_namespace, a.pid, a.pid_start, a.heartbeat_ms, run.uid FROM run "
      "JOIN attempt AS a ON a.run_id = run.id AND a.no = run.attempts WHERE run.id = ?1 AND a.status = 'running'");
  if (!row.bind(run_id).step()) return;
  const Process process{row.text(0), row.text(1), row.text(2), row.int64(3), row.int64(4)};
  if (process == this_process() || !is_running(process, row.int64(5), now_ms())) return;
  fail(ErrorKind::kUsage, "run {} is still running as process {} on {}; stop that process, then {} the run",
       row.text(6), process.pid, process.host, action);
}

void add_tag(Store& store, int64_t run_id, std::string_view tag) {
  Statement(store.database(), "INSERT INTO tag(run_id, tag) VALUES(?1, ?2) ON CONFLICT DO NOTHING")
      .bind(run_id, tag)
      .run();
}

void remove_tag(Store& store, int64_t run_id, std::string_view tag) {
  Statement(store.database(), "DELETE FROM tag WHERE run_id = ?1 AND tag = ?2").bind(run_id, tag).run();
}

void add_note(Store& store, int64_t run_id, std::string_view text) {
  Statement(store.database(), "INSERT INTO note(run_id, time_ms, text) VALUES(?1, ?2, ?3)")
      .bind(run_id, now_ms(), text)
      .run();
}

}  // namespace runner::store
