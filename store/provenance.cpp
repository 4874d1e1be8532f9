#include "store/provenance.h"

#include <cstring>

#include "schema/base/json.h"
#include "store/content.h"
#include "store/run_store.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

int64_t put_environment(Database& database, const std::string& json) {
  const Sha256Digest digest = sha256(json);
  Statement(database, "INSERT INTO environment(digest, json) VALUES(?1, ?2) ON CONFLICT DO NOTHING")
      .bind(bytes_of(digest), json)
      .run();
  Statement id(database, "SELECT id FROM environment WHERE digest = ?1");
  id.bind(bytes_of(digest)).step();
  return id.int64(0);
}

void put_sources(Database& database, const RunHandle& run, const std::vector<AttemptSource>& sources) {
  ContentTable content(database);
  Statement insert(database,
                   "INSERT OR REPLACE INTO source(run_id, attempt, kind, path, content_id) VALUES(?1, ?2, ?3, ?4, ?5)");
  for (const AttemptSource& source : sources) {
    const Bytes bytes = std::as_bytes(std::span(source.text));
    insert.bind(run.id, run.attempt, source.kind, source.path, content.put(sha256(bytes), bytes)).run();
  }
}

void put_data(Database& database, const RunHandle& run, const std::vector<RecordedFile>& files) {
  Statement insert(database,
                   "INSERT OR REPLACE INTO data_file(run_id, attempt, key, path, rows, bytes, digest) "
                   "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const RecordedFile& file : files) {
    const std::optional<Bytes> digest = file.digest ? std::optional(bytes_of(*file.digest)) : std::nullopt;
    insert.bind(run.id, run.attempt, file.key, file.path, file.rows, file.bytes, digest).run();
  }
}

std::vector<RecordedFile> read_data(Database& database, int64_t run_id, int64_t attempt) {
  Statement rows(database,
                 "SELECT key, path, rows, bytes, digest FROM data_file WHERE run_id = ?1 AND attempt = ?2 "
                 "ORDER BY key DESC");
  std::vector<RecordedFile> files;
  for (rows.bind(run_id, attempt); rows.step();) {
    RecordedFile& file = files.emplace_back();
    file.key = rows.text(0);
    file.path = rows.text(1);
    file.rows = rows.int64(2);
    file.bytes = rows.int64(3);
    const Bytes digest = rows.bytes(4);
    if (digest.size() == sizeof(Sha256Digest))
      std::memcpy(file.digest.emplace().data(), digest.data(), sizeof(Sha256Digest));
  }
  return files;
}

std::vector<std::string> names_in(const std::string& json_list) {
  std::vector<std::string> names;
  const json::Value parsed = json::parse(json_list);
  if (const json::List* list = parsed.list()) {
    for (const json::Value& name : *list) names.push_back(name.text() ? *name.text() : std::string());
  }
  return names;
}

[[noreturn]] void fail_damaged_attempt(const Database& database, int64_t attempt, const std::string& what) {
  fail(ErrorKind::kStore, "{} of attempt {} in {} is damaged: it fails its checksum; restore the store from a backup",
       what, attempt, database.path().string());
}

std::vector<AttemptSource> read_sources(Database& database, int64_t run_id, int64_t attempt) {
  Statement rows(database,
                 "SELECT kind, path, data, digest FROM source JOIN content ON content.id = source.content_id "
                 "WHERE run_id = ?1 AND attempt = ?2 ORDER BY kind, path");
  std::vector<AttemptSource> sources;
  for (rows.bind(run_id, attempt); rows.step();) {
    const Bytes data = rows.bytes(2);
    AttemptSource source{rows.text(0), rows.text(1),
                         std::string(reinterpret_cast<const char*>(data.data()), data.size())};
    if (!equal(rows.bytes(3), bytes_of(sha256(data)))) {
      fail_damaged_attempt(database, attempt, fmt::format("the {} {}", source.kind, source.path));
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace

void put_provenance(Store& store, const RunHandle& run, const Provenance& provenance) {
  Database& database = store.database();
  const GitState& git = provenance.git;
  Statement(database,
            "INSERT OR REPLACE INTO provenance(run_id, attempt, environment_id, git_commit, git_branch, git_dirty, "
            "git_untracked, git_note) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
      .bind(run.id, run.attempt, put_environment(database, provenance.environment_json), git.commit, git.branch,
            git.dirty ? std::optional<int64_t>(*git.dirty) : std::nullopt, json::compact(json::list_of(git.untracked)),
            git.note)
      .run();
  put_sources(database, run, provenance.sources);
  put_data(database, run, provenance.data);
}

std::vector<AttemptProvenance> read_provenance(Store& store, int64_t run_id) {
  Database& database = store.database();
  Statement rows(
      database,
      "SELECT attempt, git_commit, git_branch, git_dirty, git_untracked, git_note, json, digest "
      "FROM provenance JOIN environment ON environment.id = environment_id WHERE run_id = ?1 ORDER BY attempt");
  std::vector<AttemptProvenance> all;
  for (rows.bind(run_id); rows.step();) {
    AttemptProvenance& row = all.emplace_back();
    row.attempt = rows.int64(0);
    row.provenance.git = {rows.text(1), rows.text(2), std::nullopt, names_in(rows.text(4)), rows.text(5)};
    if (!rows.is_null(3)) row.provenance.git.dirty = rows.int64(3) != 0;
    row.provenance.environment_json = rows.text(6);
    if (!equal(rows.bytes(7), bytes_of(sha256(row.provenance.environment_json)))) {
      fail_damaged_attempt(database, row.attempt, "the environment");
    }
    row.provenance.sources = read_sources(database, run_id, row.attempt);
    row.provenance.data = read_data(database, run_id, row.attempt);
  }
  return all;
}

}  // namespace runner::store
