#include "store/artifacts.h"

#include <random>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "schema/base/text.h"
#include "store/removal.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::byte> bytes_from(std::string_view text) {
  const auto bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

class Artifacts : public WritableStoreTest {
 protected:
  ArtifactInfo save(const std::string& name, const ArtifactSource& source, int64_t step = 0) {
    return save_artifact(store, run, {name, "table", R"({"rows":3})", step}, source);
  }
  std::vector<std::byte> read(const std::string& name) {
    return read_artifact(store, find_artifact(store, run.id, name));
  }

  RunHandle run = create_run(store, sample_run());
};

TEST_F(Artifacts, RoundTrip) {
  const auto bytes = random_bytes(2'500'000, 1);  // three chunks
  const ArtifactInfo saved = save("plots/big.bin", bytes, 7);
  EXPECT_EQ(saved.bytes, 2'500'000);
  EXPECT_EQ(saved.new_bytes, 2'500'000);
  EXPECT_EQ(count("content"), 3);
  save("empty", std::vector<std::byte>{});
  EXPECT_EQ(read("plots/big.bin"), bytes);
  EXPECT_TRUE(read("empty").empty());

  const std::vector<ArtifactInfo> all = list_artifacts(store, run.id);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].header.name, "plots/big.bin");
  EXPECT_EQ(all[0].header.kind, "table");
  EXPECT_EQ(all[0].header.meta, R"({"rows":3})");
  EXPECT_EQ(all[0].header.step, 7);
  EXPECT_EQ(all[0].attempt, 1);
  EXPECT_EQ(all[0].digest, sha256(bytes));
  // SHA-256 of the empty string, FIPS 180-4.
  EXPECT_EQ(hex(all[1].digest), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Artifacts, ReadsAFileInChunks) {
  const auto bytes = random_bytes(3 * (size_t{1} << 20), 2);  // a multiple of the chunk size
  write_file(folder / "file", support::text_of(bytes));
  EXPECT_EQ(save("a", folder / "file").bytes, 3 << 20);
  EXPECT_EQ(save("b", bytes).new_bytes, 0);  // equal chunks
  EXPECT_EQ(read("a"), bytes);
  EXPECT_EQ(count("content"), 3);
}

TEST_F(Artifacts, NameRefersToTheNewestNotSuperseded) {
  save("loss.csv", bytes_from("one"), 1);
  save("loss.csv", bytes_from("two"), 2);
  save("late.csv", bytes_from("three"), 3);
  EXPECT_EQ(read("loss.csv"), bytes_from("two"));
  AttemptInfo again = sample_run().attempt;
  again.start_step = 1;
  run = begin_attempt(store, run.uid, again);
  EXPECT_EQ(read("loss.csv"), bytes_from("one"));
  EXPECT_NE(error_of([&] { read("late.csv"); }), "no error");
  save("loss.csv", bytes_from("four"), 2);
  EXPECT_EQ(read("loss.csv"), bytes_from("four"));
  const auto superseded = [&] {
    std::string text;
    for (const ArtifactInfo& a : list_artifacts(store, run.id))
      text += fmt::format("{}{} ", a.attempt, a.superseded ? "-" : "+");
    return text;
  };
  EXPECT_EQ(superseded(), "1+ 1- 1- 2+ ");
}

TEST_F(Artifacts, ErrorSuggestsNames) {
  const auto error = [&](const std::string& name) { return error_of([&] { find_artifact(store, run.id, name); }); };
  EXPECT_EQ(error("x"), fmt::format("not found: run {} has no artifact x; it has no artifacts", run.uid));
  save("loss.csv", bytes_from("1"));
  save("vocabulary.txt", bytes_from("1"));
  save("loss.csv", bytes_from("2"));
  EXPECT_EQ(error("lose.csv"),
            fmt::format("not found: run {} has no artifact lose.csv; did you mean loss.csv?", run.uid));
  EXPECT_EQ(error("histogram"),
            fmt::format("not found: run {} has no artifact histogram; it has loss.csv, vocabulary.txt", run.uid));
}

TEST_F(Artifacts, RejectsInvalidNames) {
  for (const std::string name : {"", "/etc/passwd", "a//b", "a/", ".", "..", "../up", "a/../b", "a\nb", "a\x7f"}) {
    EXPECT_EQ(error_of([&] { save(name, bytes_from("x")); }),
              fmt::format("run: invalid artifact name '{}': expected a relative path without empty parts, '.', '..' "
                          "and control characters, such as plots/confusion.csv",
                          visible(name)));
  }
  EXPECT_EQ(error_of([&] { save(std::string(256, 'x'), bytes_from("x")); }),
            "run: artifact name: expected at most 255 bytes, got 256");
  EXPECT_EQ(error_of([&] { save(std::string(255, 'x'), bytes_from("x")); }), "no error");
  EXPECT_EQ(error_of([&] { save("...", bytes_from("x")); }), "no error");
}

TEST_F(Artifacts, ReportsWhyAFileCannotBeRead) {
  const auto error = [&](const fs::path& file) { return error_of([&] { save("a", file); }); };
  EXPECT_EQ(error(folder / "none"), fmt::format("run: cannot read the artifact a from {}: No such file or directory",
                                                (folder / "none").string()));
  EXPECT_EQ(error(folder.path()),
            fmt::format("run: cannot read the artifact a from {}: not a regular file", folder.path().string()));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // opening it for reading would block forever
  EXPECT_EQ(error(folder / "pipe"),
            fmt::format("run: cannot read the artifact a from {}: not a regular file", (folder / "pipe").string()));
  EXPECT_TRUE(list_artifacts(store, run.id).empty());
  EXPECT_EQ(count("content"), 0);
}

TEST_F(Artifacts, TooLargeArtifactLeavesNothing) {
  write_file(folder / "huge", "");
  fs::resize_file(folder / "huge", static_cast<uintmax_t>(kLargestArtifact) + 1);  // a sparse file takes no disk space
  EXPECT_EQ(error_of([&] { save("huge", folder / "huge"); }),
            "run: the artifact huge exceeds the limit of 1073741824 bytes; store the file elsewhere and save its name");
  EXPECT_EQ(count("artifact"), 0);
  EXPECT_EQ(count("content"), 0);
}

// Content is shared with checkpoints and deleted with its last user, whichever that is.
TEST_F(Artifacts, ShareContentWithCheckpoints) {
  const auto bytes = random_bytes(5000, 3);
  save_state(store, run, {1, 0, "", false, {}}, std::vector<SectionView>{{"w", "", bytes}});
  EXPECT_EQ(save("w.bin", bytes).new_bytes, 0);
  const RunHandle other = create_run(store, sample_run("other"));
  save_artifact(store, other, {"copy", "", "", 0}, bytes);
  EXPECT_EQ(count("content"), 1);
  save_state(store, run, {2, 0, "", false, {}}, std::vector<SectionView>{{"w", "", bytes_of("other")}});
  prune_states(store, run.id, {.keep_last = 1});  // removes the checkpoint of step 1
  EXPECT_EQ(read("w.bin"), bytes);
  remove_run(store, run.id);
  EXPECT_EQ(count("content"), 1);
  EXPECT_EQ(read_artifact(store, find_artifact(store, other.id, "copy")), bytes);
  collect_garbage(store);
  EXPECT_EQ(count("content"), 1);
  remove_run(store, other.id);
  for (const char* table : {"content", "artifact", "artifact_content"}) EXPECT_EQ(count(table), 0) << table;
}

TEST_F(Artifacts, ErrorNamesTheDamagedChunk) {
  save("big.bin", random_bytes(2'500'000, 4));
  const std::string place = fmt::format("store: artifact big.bin in {} is damaged: ", path.string());
  const std::string advice = "; restore the store from a backup, or create the artifact again";
  const auto error_after = [&](const std::string& damage) {
    store.database().exec("SAVEPOINT whole; PRAGMA defer_foreign_keys = ON; " + damage);
    const std::string error = error_of([&] { read("big.bin"); });
    store.database().exec("ROLLBACK TO whole; RELEASE whole");
    return error;
  };
  EXPECT_EQ(error_after("UPDATE content SET data = CAST('x' AS BLOB) WHERE id = 2"),
            place + "piece 1 fails its checksum" + advice);
  EXPECT_EQ(error_after("DELETE FROM artifact_content WHERE no = 2"),
            place + "the digest of its 2097152 bytes differs from that of the 2500000 bytes saved" + advice);
  EXPECT_EQ(error_after("UPDATE artifact_content SET content_id = 3 - content_id WHERE no < 2"),
            place + "the digest of its 2500000 bytes differs from that of the 2500000 bytes saved" + advice);
  EXPECT_EQ(error_after("UPDATE artifact SET digest = X'00'"), place + "its digest is truncated" + advice);
  EXPECT_EQ(error_of([&] { read("big.bin"); }), "no error");
}

TEST_F(Artifacts, AreListedInAView) {
  save("loss.csv", bytes_from("abc"), 5);
  const SqlResult result =
      sql_query(path,
                "SELECT name, artifact, step, kind, meta, bytes, new_bytes, sha256, superseded, attempt "
                "FROM artifacts");
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_EQ(result.rows[0],
            (std::vector<SqlValue>{"digits", "loss.csv", int64_t{5}, "table", R"({"rows":3})", int64_t{3}, int64_t{3},
                                   // SHA-256 of "abc", FIPS 180-4
                                   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", int64_t{0},
                                   int64_t{1}}));
}

// ---- RunWriter -----------------------------------------------------------------------------------------------------

class ArtifactWriting : public StoreTest {
 protected:
  Store store() { return open_to_read(); }
  RunInfo info = sample_run();
};

TEST_F(ArtifactWriting, CommitsEarlierPointsFirst) {
  RunWriter writer(open_to_write(), info, {.flush_every = std::chrono::hours(1)});
  writer.push(writer.series("loss"), 1, 0.5);
  const ArtifactInfo saved = writer.save_artifact({"a.txt", "", "", 1}, bytes_from("a")).get();
  Store reader = store();
  EXPECT_EQ(metric_points(reader, find_run(reader, info.uid), "loss").size(), 1u);
  EXPECT_EQ(find_artifact(reader, saved.run_id, "a.txt").bytes, 1);
}

TEST_F(ArtifactWriting, FailureIsAWarningAndTheRunContinues) {
  RunWriter writer(open_to_write(), info);
  const auto lost = writer.save_artifact({"a.txt", "", "", 1}, folder / "none");
  const std::string what =
      fmt::format("cannot read the artifact a.txt from {}: No such file or directory", (folder / "none").string());
  EXPECT_EQ(error_of([&] { lost.get(); }), "run: " + what);
  EXPECT_EQ(writer.take_warnings(), std::vector{"failed to save the artifact a.txt: " + what});
  writer.save_artifact({"b.txt", "", "", 1}, bytes_from("b"));
  writer.finish({RunStatus::kDone, 0, "", "{}"});
  Store reader = store();
  EXPECT_EQ(list_artifacts(reader, find_run(reader, info.uid).id).size(), 1u);
}

}  // namespace
}  // namespace runner::store
