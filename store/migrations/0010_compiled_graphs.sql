-- What emulated TPUs have compiled, for later runs: tpu.persistent_cache.

CREATE TABLE compiled_graph(
  key BLOB PRIMARY KEY,         -- SHA-256 of the binary and of what the entry was made from
  entry BLOB NOT NULL,
  digest BLOB NOT NULL,         -- SHA-256 of the entry
  created_ms INTEGER NOT NULL,
  used_ms INTEGER NOT NULL      -- by a run, last
) STRICT, WITHOUT ROWID;
