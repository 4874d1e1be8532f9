// Entries of the persistent compilation cache: lookup by key, checksums, eviction.
#include "store/compiled_graphs.h"

#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

class CompiledGraphsTest : public WritableStoreTest {
 protected:
  void put(const CompiledGraphs& graphs) {
    commit([&] { put_compiled_graphs(store, graphs); });
  }
  CompiledGraph graph(std::string_view name, std::string_view entry) const {
    return {sha256(name), {bytes_of(entry).begin(), bytes_of(entry).end()}};
  }
  std::string find(std::string_view name) {
    const auto entry = find_compiled_graph(store, sha256(name));
    return entry ? support::text_of(*entry) : "none";
  }
  void make_older(std::string_view name, int64_t ms) {
    const Sha256Digest key = sha256(name);
    Statement(store.database(), "UPDATE compiled_graph SET used_ms = used_ms - ?2 WHERE key = ?1")
        .bind(std::as_bytes(std::span(key)), ms)
        .run();
  }
};

TEST_F(CompiledGraphsTest, FoundByKeyAndReplaced) {
  EXPECT_EQ(find("a"), "none");
  put({.made = {graph("a", "one"), graph("b", "two")}, .used = {}});
  EXPECT_EQ(find("a"), "one");
  EXPECT_EQ(find("b"), "two");
  put({.made = {graph("a", "three")}, .used = {}});
  EXPECT_EQ(find("a"), "three");
}

TEST_F(CompiledGraphsTest, DetectsDamage) {
  put({.made = {graph("a", "one")}, .used = {}});
  store.database().exec("UPDATE compiled_graph SET entry = x'6f6e66'");
  try {
    find("a");
    FAIL() << "damage was not detected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.message(), "checksum mismatch");
  }
}

TEST_F(CompiledGraphsTest, RemovedWhenUnusedForLong) {
  put({.made = {graph("a", "one"), graph("b", "two"), graph("c", "three")}, .used = {}});
  for (const char* name : {"a", "b"}) make_older(name, 2'000);
  put({.made = {}, .used = {sha256("b"), sha256("unknown")}});
  EXPECT_EQ(trim_compiled_graphs(store, {.age_ms = 1'000}), 1);
  EXPECT_EQ(find("a"), "none");
  EXPECT_EQ(find("b"), "two");
  EXPECT_EQ(find("c"), "three");
  EXPECT_EQ(trim_compiled_graphs(store), 0);
}

TEST_F(CompiledGraphsTest, EvictsLeastRecentlyUsed) {
  put({.made = {graph("a", "12345"), graph("b", "12345"), graph("c", "12345")}, .used = {}});
  make_older("b", 2'000);
  make_older("c", 1'000);
  EXPECT_EQ(trim_compiled_graphs(store, {.bytes = 11}), 1);
  EXPECT_EQ(find("b"), "none");
  EXPECT_EQ(trim_compiled_graphs(store, {.bytes = 9}), 1);
  EXPECT_EQ(find("c"), "none");
  EXPECT_EQ(find("a"), "12345");
  EXPECT_EQ(trim_compiled_graphs(store, {.bytes = 0}), 1);
}

}  // namespace
}  // namespace runner::store
