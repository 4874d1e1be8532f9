#include "store/state_store.h"

#include <random>

#include <gtest/gtest.h>

#include "store/removal.h"
#include "store/sqlite.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

std::string random_text(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class StateStore : public WritableStoreTest {
 protected:
  StateInfo save(int64_t step, const std::vector<SectionView>& sections, size_t chunk_bytes = 1000) {
    StateHeader header;
    header.step = step;
    return save_state(store, run, header, sections, chunk_bytes);
  }

  // Saves a small checkpoint with one metric.
  int64_t save_metric(int64_t step, double value, bool pinned = false) {
    StateHeader header;
    header.step = step;
    header.pinned = pinned;
    header.metrics = {{"eval/loss", value}};
    const std::string bytes = std::to_string(step);
    return save_state(store, run, header, std::vector<SectionView>{{"w", "", bytes_of(bytes)}}).id;
  }

  std::vector<int64_t> steps() {
    std::vector<int64_t> result;
    for (const StateInfo& state : list_states(store, run.id)) result.push_back(state.step);
    return result;
  }

  RunHandle run = create_run(store, sample_run());
};

TEST_F(StateStore, RoundTrip) {
  const std::string weights = random_text(2500, 1), exact = random_text(2000, 2), empty;
  StateHeader header{120, 3, "schedule", true, {{"eval/accuracy", 0.97}, {"eval/loss", kNan}}};
  const StateInfo saved =
      save_state(store, run, header,
                 std::vector<SectionView>{{"0.weight", R"({"dtype":"f32","shape":[25,25]})", bytes_of(weights)},
                                          {"rng", "{}", bytes_of(empty)},
                                          {"adam/m", "", bytes_of(exact)}},
                 1000);
  EXPECT_EQ(saved.step, 120);
  EXPECT_EQ(saved.epoch, 3);
  EXPECT_EQ(saved.reason, "schedule");
  EXPECT_TRUE(saved.pinned);
  EXPECT_FALSE(saved.superseded);
  EXPECT_EQ(saved.run, run.uid);
  EXPECT_EQ(saved.bytes, 4500);
  EXPECT_EQ(saved.new_bytes, 4500);
  EXPECT_EQ(saved.metrics[0], (std::pair<std::string, double>("eval/accuracy", 0.97)));
  EXPECT_TRUE(std::isnan(saved.metrics[1].second));

  const LoadedState loaded = load_state(store, saved.id);
  ASSERT_EQ(loaded.sections.size(), 3u);
  EXPECT_EQ(loaded.sections[0].name, "0.weight");
  EXPECT_EQ(loaded.sections[0].meta, R"({"dtype":"f32","shape":[25,25]})");
  EXPECT_EQ(support::text_of(loaded.sections[0].bytes), weights);
  EXPECT_EQ(loaded.at("rng").bytes.size(), 0u);
  EXPECT_EQ(support::text_of(loaded.at("adam/m").bytes), exact);
  EXPECT_EQ(loaded.find("absent"), nullptr);
  EXPECT_EQ(error_of([&] { loaded.at("absent"); }),
            "store: state 1 has no section absent; it was written by another version of runner");
}

TEST_F(StateStore, ReadsOneSection) {
  const std::string a = random_text(2500, 1), b = random_text(1500, 2);
  const int64_t id = save(1, {{"a", "{}", bytes_of(a)}, {"b", "", bytes_of(b)}}).id;
  const LoadedState loaded = load_section(store, id, "a");
  ASSERT_EQ(loaded.sections.size(), 1u);
  EXPECT_EQ(loaded.info.step, 1);
  EXPECT_EQ(loaded.at("a").meta, "{}");
  EXPECT_EQ(support::text_of(loaded.at("a").bytes), a);
  EXPECT_EQ(error_of([&] { load_section(store, id, "c"); }), "store: state 1 has no section c");
  Statement(store.database(), "UPDATE content SET data = zeroblob(length(data))").run();
  EXPECT_NE(error_of([&] { load_section(store, id, "b"); }).find("section b fails its checksum in chunk 0"),
            std::string::npos);
}

TEST_F(StateStore, SavesLentSections) {
  const std::string a = random_text(2500, 1), b = random_text(1500, 2);
  StateSnapshot snapshot;
  snapshot.header.step = 1;
  snapshot.lend("a", "{}", bytes_of(a));
  snapshot.add("b", "", bytes_of(b));
  snapshot.lend("c", "", {});
  EXPECT_EQ(snapshot.bytes(), b.size());
  const StateInfo saved = save_state(store, run, snapshot.header, snapshot.sections());
  const LoadedState loaded = load_state(store, saved.id);
  ASSERT_EQ(loaded.sections.size(), 3u);
  EXPECT_EQ(support::text_of(loaded.at("a").bytes), a);
  EXPECT_EQ(support::text_of(loaded.at("b").bytes), b);
  EXPECT_TRUE(loaded.at("c").bytes.empty());
  snapshot.clear();
  EXPECT_TRUE(snapshot.sections().empty());
}

// Chunks of other sections are neither read nor verified; their number and digests are.
TEST_F(StateStore, ReadsWantedSections) {
  const std::string a = random_text(2500, 1), b = random_text(1500, 2);
  const int64_t id = save(1, {{"a", "{}", bytes_of(a)}, {"b", "", bytes_of(b)}, {"c", "", {}}}).id;
  Statement(store.database(),
            "UPDATE content SET data = zeroblob(length(data)) WHERE id IN "
            "(SELECT content_id FROM section_content WHERE section_no = 1)")
      .run();
  const LoadedState loaded = load_state(store, id, [](std::string_view name) { return name != "b"; });
  ASSERT_EQ(loaded.sections.size(), 2u);
  EXPECT_EQ(support::text_of(loaded.at("a").bytes), a);
  EXPECT_TRUE(loaded.at("c").bytes.empty());
  Statement(store.database(), "DELETE FROM section_content WHERE section_no = 1 AND no > 0").run();
  EXPECT_NE(error_of([&] { load_section(store, id, "a"); }).find("section b has "), std::string::npos);
}

TEST_F(StateStore, AStateMayBeEmpty) {
  const StateInfo saved = save(1, {});
  EXPECT_EQ(saved.bytes, 0);
  EXPECT_TRUE(load_state(store, saved.id).sections.empty());
}

TEST_F(StateStore, StoresEqualChunksOnce) {
  const std::string frozen = random_text(5000, 1);
  std::string trained = random_text(5000, 2);
  EXPECT_EQ(save(1, {{"a", "", bytes_of(frozen)}, {"b", "", bytes_of(trained)}}).new_bytes, 10'000);
  trained[4999] ^= 1;
  EXPECT_EQ(save(2, {{"a", "", bytes_of(frozen)}, {"b", "", bytes_of(trained)}}).new_bytes, 1000);  // only its last
                                                                                                    // chunk is new
  // Also within one checkpoint, under other names, and in another run.
  EXPECT_EQ(save(3, {{"x", "", bytes_of(frozen)}, {"y", "", bytes_of(frozen)}}).new_bytes, 0);
  run = create_run(store, sample_run("other"));
  const StateInfo other = save(1, {{"a", "", bytes_of(frozen)}});
  EXPECT_EQ(other.new_bytes, 0);
  EXPECT_EQ(support::text_of(load_state(store, other.id).at("a").bytes), frozen);
  EXPECT_EQ(count("content"), 11);
}

TEST_F(StateStore, ChunksNeverCrossSections) {
  const std::string a = random_text(1500, 1), b = random_text(1500, 2);
  save(1, {{"a", "", bytes_of(a)}, {"b", "", bytes_of(b)}});
  EXPECT_EQ(
      store.database().query_text("SELECT group_concat(length(data)) FROM (SELECT data FROM content ORDER BY id)"),
      "1000,500,1000,500");
}

TEST_F(StateStore, AnUnknownStateIsAnError) {
  EXPECT_EQ(error_of([&] { load_state(store, 7); }),
            fmt::format("not found: no state 7 in {}; `runner states RUN` lists the states of a run", path.string()));
}

TEST_F(StateStore, ErrorNamesTheDamagedChunk) {
  const std::string a = random_text(30, 1), b = random_text(25, 2);
  const int64_t id = save(9, {{"a", "", bytes_of(a)}, {"b", "", bytes_of(b)}}, 10).id;
  Statement damage(
      store.database(),
      "UPDATE content SET data = CAST(substr(data, 1, ?2) || ?3 || substr(data, ?2 + 2) AS BLOB) WHERE id = ?1");
  for (int64_t content = 1; content <= 6; ++content) {
    const std::string& section = content <= 3 ? a : b;
    const size_t start = static_cast<size_t>(content <= 3 ? content - 1 : content - 4) * 10;
    for (size_t at = 0; at < std::min<size_t>(10, section.size() - start); ++at) {
      const std::string good(1, section[start + at]), bad(1, static_cast<char>(section[start + at] ^ 0x10));
      damage.bind(content, static_cast<int64_t>(at), bytes_of(bad)).run();
      EXPECT_EQ(error_of([&] { load_state(store, id); }),
                fmt::format(
                    "store: state {} in {} is damaged: section {} fails its checksum in chunk {}; use an earlier state "
                    "(`runner states`)",
                    id, path.string(), content <= 3 ? "a" : "b", start / 10));
      damage.bind(content, static_cast<int64_t>(at), bytes_of(good)).run();
    }
  }
  EXPECT_EQ(support::text_of(load_state(store, id).at("b").bytes), b);
}

TEST_F(StateStore, ErrorReportsAMissingChunk) {
  const std::string a = random_text(30, 1);
  const int64_t id = save(9, {{"a", "", bytes_of(a)}}, 10).id;
  store.database().exec("DELETE FROM section_content WHERE no = 1");
  EXPECT_EQ(error_of([&] { load_state(store, id); }),
            fmt::format("store: state {} in {} is damaged: section a has 20 bytes, expected 30; use an earlier state "
                        "(`runner states`)",
                        id, path.string()));
}

// Each change leaves the checksums of all chunks valid.
TEST_F(StateStore, DetectsChangesInTheListOfSections) {
  const std::string a = random_text(25, 1), b = random_text(25, 2), c = random_text(25, 3);
  const int64_t id = save(9, {{"a", "f32", bytes_of(a)}, {"b", "f32", bytes_of(b)}, {"c", "f32", bytes_of(c)}}, 10).id;
  Database& database = store.database();
  const std::pair<const char*, const char*> kDamages[] = {
      {"DELETE FROM section WHERE no = 0", "section number 0 is missing"},
      {"DELETE FROM section WHERE no = 1", "section number 1 is missing"},
      {"DELETE FROM section WHERE no = 2", "section number 2 is missing"},
      {"DELETE FROM section WHERE no = 2; DELETE FROM section_content WHERE section_no = 2",
       "its manifest (step and sections) fails its checksum"},
      {"UPDATE section SET name = 'x' WHERE no = 0; UPDATE section SET name = 'a' WHERE no = 1;"
       "UPDATE section SET name = 'b' WHERE no = 0",
       "its manifest (step and sections) fails its checksum"},
      {"UPDATE section SET meta = 'f64' WHERE no = 1", "its manifest (step and sections) fails its checksum"},
      {"UPDATE state SET step = 8", "its manifest (step and sections) fails its checksum"},
      {"UPDATE section_content SET content_id = content_id + 3 WHERE section_no = 0",
       "its manifest (step and sections) fails its checksum"},
  };
  for (const auto& [damage, what] : kDamages) {
    const fs::path copy = folder / "copy.db";
    database.exec(fmt::format("VACUUM INTO '{}'", copy.string()));
    {
      Store damaged = Store::open(copy, Access::kWrite);
      // Other programs do not enforce foreign keys by default.
      damaged.database().exec("PRAGMA foreign_keys = OFF");
      damaged.database().exec(damage);
      EXPECT_EQ(error_of([&] { load_state(damaged, id); }),
                fmt::format("store: state {} in {} is damaged: {}; use an earlier state (`runner states`)", id,
                            copy.string(), what))
          << damage;
    }
    fs::remove(copy);
  }
}

TEST_F(StateStore, ReadsAStateWithoutManifest) {
  const int64_t id = save_metric(1, 1);
  store.database().exec("UPDATE state SET manifest = NULL");
  EXPECT_EQ(support::text_of(load_state(store, id).at("w").bytes), "1");
}

TEST_F(StateStore, ListsNewestFirstAndOmitsSupersededForResume) {
  for (const int64_t step : {100, 200, 300}) save_metric(step, 1);
  AttemptInfo again = sample_run().attempt;
  again.start_step = 200;
  run = begin_attempt(store, run.uid, again);
  EXPECT_EQ(steps(), (std::vector<int64_t>{300, 200, 100}));
  EXPECT_TRUE(list_states(store, run.id)[0].superseded);
  const auto usable = list_states(store, run.id, /*for_resume=*/true);
  ASSERT_EQ(usable.size(), 2u);
  EXPECT_EQ(usable[0].step, 200);
  save_metric(300, 1);
  EXPECT_EQ(list_states(store, run.id, /*for_resume=*/true)[0].step, 300);
}

TEST_F(StateStore, RetentionKeepsLastBestAndPinned) {
  save_metric(1, 0.9, /*pinned=*/true);
  save_metric(2, 0.2);
  save_metric(3, kNan);
  save_metric(4, 0.2);
  save_metric(5, 0.5);
  save_metric(6, 0.8);
  save_metric(7, 0.7);
  EXPECT_EQ(prune_states(store, run.id, {}), 0);
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 5}), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{7, 6, 5, 4, 3, 1}));
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 2, .keep_best = Retention::Best{"eval/loss", false, 1}}), 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{7, 6, 4, 1}));
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = {}, .keep_best = Retention::Best{"eval/loss", true, 2}}), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{7, 6, 1}));  // step 1 is pinned and best, 6 is second best, and the newest
                                                        // is always kept
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 0}), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{7, 1}));
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = {}, .keep_best = Retention::Best{"no/such", true, 2}}), 0);
  store.database().exec("UPDATE state SET pinned = 0");
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 1}), 1);
  EXPECT_EQ(steps(), std::vector<int64_t>{7});
  EXPECT_EQ(count("content"), 1);
}

TEST_F(StateStore, NamesBelongToTheNewestStateAndAreKept) {
  const auto named = [&](int64_t step, std::vector<std::string> names) {
    StateHeader header{.step = step, .epoch = 0, .reason = "hook", .metrics = {}, .names = std::move(names)};
    const std::string bytes = std::to_string(step);
    return save_state(store, run, header, std::vector<SectionView>{{"w", "", bytes_of(bytes)}});
  };
  const StateInfo first = named(1, {"b", "a"});
  EXPECT_EQ(first.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(is_selected(first, "a") && is_selected(first, std::to_string(first.id)) && is_selected(first, ""));
  EXPECT_FALSE(is_selected(first, "c"));
  named(2, {"b"});
  named(3, {});
  named(4, {});
  EXPECT_EQ(find_state(store, first.id).names, std::vector<std::string>{"a"});
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 1}), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 2, 1}));
  named(5, {"a", "b"});
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 1}), 3);
  EXPECT_EQ(steps(), std::vector<int64_t>{5});
  for (const std::string_view name : {"12", "best", "best(eval/loss)"}) EXPECT_FALSE(is_state_name(name)) << name;
  for (const std::string_view name : {"best-model", "1b", "warm"}) EXPECT_TRUE(is_state_name(name)) << name;
}

TEST_F(StateStore, RetentionKeepsTheFirstOfEquallyGood) {
  for (const int64_t step : {1, 2, 3, 4}) save_metric(step, step == 4 ? 1.0 : 0.5);
  prune_states(store, run.id, {.keep_last = 1, .keep_best = Retention::Best{"eval/loss", false, 1}});
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 1}));
}

TEST_F(StateStore, RetentionRemovesSupersededFirst) {
  for (const int64_t step : {100, 200, 300}) save_metric(step, 1);
  AttemptInfo again = sample_run().attempt;
  again.start_step = 100;
  run = begin_attempt(store, run.uid, again);
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 2}), 2);
  EXPECT_EQ(steps(), std::vector<int64_t>{100});
}

TEST_F(StateStore, RetentionKeepsTheStartOfAFork) {
  const int64_t first = save_metric(1, 1);
  save_metric(2, 1);
  RunInfo info = sample_run("fork");
  info.parent = run.uid;
  info.attempt.from_state = first;
  const RunHandle fork = create_run(store, info);
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 1}), 0);
  save_state(store, fork, {}, {});
  EXPECT_EQ(prune_states(store, run.id, {.keep_last = 1}), 1);
}

TEST_F(StateStore, ARunThatAForkStartsFromIsNotRemoved) {
  const int64_t first = save_metric(1, 1);
  RunInfo info = sample_run("fork");
  info.parent = run.uid;
  info.attempt.from_state = first;
  const RunHandle fork = create_run(store, info);
  const std::string reason = fmt::format(
      "cannot remove run {}: run {} starts from its state {} and has saved no state itself; first remove that run with "
      "`runner rm --purge {}`, or let it save a state with `runner resume {}`",
      run.uid, fork.uid, first, fork.uid, fork.uid);
  EXPECT_EQ(error_of([&] { remove_run(store, run.id); }), "usage: " + reason);
  EXPECT_EQ(load_state(store, first).info.id, first);
  trash_run(store, run.id);
  PurgeResult emptied = empty_trash(store, 0);
  EXPECT_TRUE(emptied.removed.empty());
  ASSERT_EQ(emptied.kept.size(), 1u);
  EXPECT_EQ(emptied.kept[0].uid, run.uid);
  EXPECT_EQ(emptied.kept[0].reason, reason);
  // If the fork is in the trash as well, both are removed.
  trash_run(store, fork.id);
  emptied = empty_trash(store, 0);
  EXPECT_EQ(emptied.removed, (std::vector<std::string>{fork.uid, run.uid}));
  EXPECT_TRUE(emptied.kept.empty());
}

TEST_F(StateStore, ParentOfAForkWithItsOwnStateIsRemoved) {
  RunInfo info = sample_run("fork");
  info.parent = run.uid;
  info.attempt.from_state = save_metric(1, 1);
  save_state(store, create_run(store, info), {}, {});
  remove_run(store, run.id);
  EXPECT_EQ(list_runs(store).size(), 1u);
}

TEST_F(StateStore, SharedChunksOutliveTheFirstState) {
  const std::string shared = random_text(4000, 1), own = random_text(4000, 2);
  save(1, {{"a", "", bytes_of(shared)}, {"b", "", bytes_of(own)}});
  const int64_t second = save(2, {{"a", "", bytes_of(shared)}}).id;
  prune_states(store, run.id, {.keep_last = 1});
  EXPECT_EQ(support::text_of(load_state(store, second).at("a").bytes), shared);
  EXPECT_EQ(count("content"), 4);
}

TEST_F(StateStore, FreedPagesAreReused) {
  const auto pages = [&] { return store.database().query_int64("PRAGMA page_count"); };
  const auto round = [&](uint64_t seed) {
    const std::string weights = random_text(1'000'000, seed);
    save(1, {{"w", "", bytes_of(weights)}});
    prune_states(store, run.id, {.keep_last = 1});
  };
  round(1);
  round(2);
  const int64_t before = pages();
  for (uint64_t seed = 3; seed < 8; ++seed) round(seed);
  EXPECT_LE(pages(), before + 4);
}

TEST_F(StateStore, ASnapshotIsACopyThatKeepsItsMemory) {
  StateSnapshot snapshot;
  std::string weights = "abc";
  snapshot.header.step = 5;
  snapshot.add("w", "meta", bytes_of(weights));
  snapshot.add("v", "", bytes_of("de"));
  weights = "xyz";
  EXPECT_EQ(snapshot.bytes(), 5u);
  const int64_t id = save_state(store, run, snapshot.header, snapshot.sections()).id;
  EXPECT_EQ(support::text_of(load_state(store, id).at("w").bytes), "abc");
  EXPECT_EQ(support::text_of(load_state(store, id).at("v").bytes), "de");
  snapshot.clear();
  EXPECT_EQ(snapshot.bytes(), 0u);
  EXPECT_TRUE(snapshot.sections().empty());
  EXPECT_EQ(snapshot.header.step, 0);
}

}  // namespace
}  // namespace runner::store
