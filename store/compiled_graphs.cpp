#include "store/compiled_graphs.h"

#include "schema/base/clock.h"
#include "schema/base/error.h"
#include "store/content.h"
#include "store/sqlite.h"

namespace runner::store {

std::optional<std::vector<std::byte>> find_compiled_graph(Store& store, const Sha256Digest& key) {
  Statement row(store.database(), "SELECT entry, digest FROM compiled_graph WHERE key = ?1");
  if (!row.bind(bytes_of(key)).step()) return std::nullopt;
  const Bytes entry = row.bytes(0);
  RUN_CHECK(equal(bytes_of(sha256(entry)), row.bytes(1)), ErrorKind::kData, "checksum mismatch");
  return std::vector<std::byte>(entry.begin(), entry.end());
}

void put_compiled_graphs(Store& store, const CompiledGraphs& graphs) {
  Statement insert(store.database(),
                   "INSERT OR REPLACE INTO compiled_graph(key, entry, digest, created_ms, used_ms) VALUES(?1, ?2, ?3, "
                   "?4, ?4)");
  for (const CompiledGraph& graph : graphs.made) {
    const Sha256Digest digest = sha256(graph.entry);
    insert.bind(bytes_of(graph.key), Bytes(graph.entry), bytes_of(digest), now_ms()).run();
  }
  Statement use(store.database(), "UPDATE compiled_graph SET used_ms = ?2 WHERE key = ?1");
  for (const Sha256Digest& key : graphs.used) use.bind(bytes_of(key), now_ms()).run();
}

int64_t trim_compiled_graphs(Store& store, const CompiledGraphLimits& limits) {
  Database& database = store.database();
  Transaction transaction(database, Transaction::Kind::kWrite);
  const int64_t before = database.query_int64("SELECT count(*) FROM compiled_graph");
  Statement(database,
            "DELETE FROM compiled_graph WHERE used_ms < ?1 OR key IN (SELECT key FROM (SELECT key, sum(length(entry)) "
            "OVER (ORDER BY used_ms DESC, key) AS bytes FROM compiled_graph) WHERE bytes > ?2)")
      .bind(now_ms() - limits.age_ms, limits.bytes)
      .run();
  const int64_t after = database.query_int64("SELECT count(*) FROM compiled_graph");
  transaction.commit();
  return before - after;
}

}  // namespace runner::store
