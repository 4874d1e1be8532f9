#include "store/provenance.h"

#include <thread>

#include <gtest/gtest.h>

#include "store/content.h"
#include "store/removal.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

Provenance sample() {
  Provenance provenance;
  provenance.git = {"52c6d14a", "main", true, {"new.txt", "a \"b\"\n.txt"}, "diff truncated after 256 KiB"};
  provenance.environment_json = R"({"cpu":"EPYC","cores":2,"env.OMP_NUM_THREADS":"2"})";
  provenance.sources = {{"include", "base.yaml", "seed: 1\n"}, {"diff", "52c6d14a", std::string("\0\xff", 2)}};
  provenance.data = {{"data.train.path", "wine.csv", 178, 11'000, sha256("wine")},
                     {"data.eval.path", "late.csv", 7, 20, std::nullopt}};
  return provenance;
}

class ProvenanceStore : public WritableStoreTest {
 protected:
  void put(const RunHandle& of, const Provenance& provenance) {
    commit([&] { put_provenance(store, of, provenance); });
  }
  std::vector<SqlValue> row(const std::string& sql) { return sql_query(path, sql).rows.at(0); }

  RunHandle run = create_run(store, sample_run());
};

TEST_F(ProvenanceStore, RoundTrip) {
  put(run, sample());
  const std::vector<AttemptProvenance> all = read_provenance(store, run.id);
  ASSERT_EQ(all.size(), 1u);
  const auto& [git, environment, sources, data] = all[0].provenance;
  EXPECT_EQ(all[0].attempt, 1);
  EXPECT_EQ(git.commit, "52c6d14a");
  EXPECT_EQ(git.branch, "main");
  EXPECT_EQ(git.dirty, true);
  EXPECT_EQ(git.untracked, sample().git.untracked);
  EXPECT_EQ(git.note, "diff truncated after 256 KiB");
  EXPECT_EQ(environment, sample().environment_json);
  EXPECT_EQ(data, sample().data);
  EXPECT_EQ(
      row("SELECT key || ' ' || path || ' ' || rows || ' ' || bytes || ' ' || sha256 FROM data_files WHERE sha256 "
          "IS NOT NULL")[0],
      SqlValue("data.train.path wine.csv 178 11000 " + hex(sha256("wine"))));
  EXPECT_EQ(row("SELECT count(*) FROM data_files WHERE sha256 IS NULL")[0], SqlValue(int64_t{1}));
  ASSERT_EQ(sources.size(), 2u);  // sorted by kind
  EXPECT_EQ(sources[0].kind + sources[0].path + sources[0].text, std::string("diff52c6d14a\0\xff", 14));
  EXPECT_EQ(sources[1].kind + sources[1].path + sources[1].text, "includebase.yamlseed: 1\n");
}

TEST_F(ProvenanceStore, GitStateMayBeUnknown) {
  Provenance provenance;
  provenance.git.note = "git is not installed";
  provenance.environment_json = "{}";
  put(run, provenance);
  EXPECT_EQ(read_provenance(store, run.id)[0].provenance.git.dirty, std::nullopt);
  EXPECT_EQ(row("SELECT git_commit, git_branch, git_dirty, git_untracked, git_note FROM attempts"),
            (std::vector<SqlValue>{{}, {}, {}, "[]", "git is not installed"}));
}

// Each attempt has its own provenance; equal environments and texts are stored once.
TEST_F(ProvenanceStore, BelongsToAnAttempt) {
  put(run, sample());
  const RunHandle again = begin_attempt(store, run.uid, sample_run().attempt);
  Provenance second = sample();
  second.git.dirty = false;
  second.sources.pop_back();
  put(again, second);
  put(again, second);  // replaces the first one
  EXPECT_EQ(count("environment"), 1);
  EXPECT_EQ(count("content"), 2);
  EXPECT_EQ(count("source"), 3);
  ASSERT_EQ(read_provenance(store, run.id).size(), 2u);
  EXPECT_EQ(read_provenance(store, run.id)[1].provenance.git.dirty, false);
}

TEST_F(ProvenanceStore, RemovedWithTheRun) {
  put(run, sample());
  const RunHandle other = create_run(store, sample_run("other"));
  Provenance clean = sample();
  clean.sources.pop_back();
  put(other, clean);
  remove_run(store, run.id);
  EXPECT_EQ(count("provenance"), 1);
  EXPECT_EQ(count("content"), 1);  // the other run also uses the include
  remove_run(store, other.id);
  collect_garbage(store);
  for (const char* table : {"provenance", "source", "content", "environment"}) EXPECT_EQ(count(table), 0) << table;
}

TEST_F(ProvenanceStore, ErrorNamesTheDamagedPart) {
  put(run, sample());
  const auto error_after = [&](const std::string& damage) {
    store.database().exec("SAVEPOINT whole; " + damage);
    const std::string error = error_of([&] { read_provenance(store, run.id); });
    store.database().exec("ROLLBACK TO whole; RELEASE whole");
    return error;
  };
  const std::string rest = fmt::format(
      " of attempt 1 in {} is damaged: it fails its checksum; restore the store from a backup", path.string());
  EXPECT_EQ(error_after("UPDATE environment SET json = '{}'"), "store: the environment" + rest);
  EXPECT_EQ(error_after("UPDATE content SET data = CAST('seed: 2' AS BLOB) WHERE id = 1"),
            "store: the include base.yaml" + rest);
}

TEST_F(ProvenanceStore, HasViews) {
  put(run, sample());
  EXPECT_EQ(
      row("SELECT attempt, status, git_commit, git_branch, git_dirty, json_extract(git_untracked, '$[0]'), "
          "backend, start_step, from_state FROM attempts"),
      (std::vector<SqlValue>{int64_t{1}, "running", "52c6d14a", "main", int64_t{1}, "new.txt", "cpu", int64_t{0}, {}}));
  EXPECT_EQ(row("SELECT value FROM environments WHERE key = 'cores'"), std::vector<SqlValue>{int64_t{2}});
  EXPECT_EQ(row("SELECT name, attempt, path, bytes, text FROM sources WHERE kind = 'include'"),
            (std::vector<SqlValue>{"digits", int64_t{1}, "base.yaml", int64_t{8}, "seed: 1\n"}));
  // SHA-256 of "seed: 1\n", computed by coreutils
  EXPECT_EQ(row("SELECT sha256 FROM sources WHERE kind = 'include'"),
            std::vector<SqlValue>{"adf0396d435b4047092c20dada268d22d8db7f192fe2a8a9a283c9e9dea6af54"});
  // A resume marks an earlier attempt that recorded no end as crashed.
  begin_attempt(store, run.uid, sample_run().attempt);
  EXPECT_EQ(row("SELECT group_concat(status) FROM attempts"), std::vector<SqlValue>{"crashed,running"});
}

TEST_F(ProvenanceStore, ViewIncludesAttemptsWithoutProvenance) {
  EXPECT_EQ(row("SELECT attempt, git_commit, git_note FROM attempts"), (std::vector<SqlValue>{int64_t{1}, {}, {}}));
  EXPECT_TRUE(read_provenance(store, run.id).empty());
}

TEST_F(ProvenanceStore, RunWriterRecordsItFromAnyThread) {
  const RunInfo info = sample_run("written");
  RunWriter writer(open_to_write(), info, {.flush_every = std::chrono::hours(1)});
  std::jthread([&] { writer.provenance(sample()); }).join();
  writer.flush();
  const AttemptProvenance found = read_provenance(store, find_run(store, info.uid).id).at(0);
  EXPECT_EQ(found.provenance.git.commit, "52c6d14a");
}

}  // namespace
}  // namespace runner::store
