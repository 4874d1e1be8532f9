-- What an emulated TPU compiled, and counted, in each attempt.

CREATE TABLE device_metrics(
  run_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  json TEXT NOT NULL,           -- the metrics report as a document
  PRIMARY KEY(run_id, attempt),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE graph(
  run_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  no INTEGER NOT NULL,          -- in the order in which they were compiled, from 1
  key TEXT NOT NULL,
  first_step INTEGER NOT NULL,  -- training batch at which it first ran, from 1; 0: before any
  cause TEXT NOT NULL,
  file TEXT NOT NULL,           -- and line, of a hook: where what made it another graph was recorded; empty: nowhere
  line INTEGER NOT NULL,
  nodes INTEGER NOT NULL,
  inputs INTEGER NOT NULL,
  outputs INTEGER NOT NULL,
  donated INTEGER NOT NULL,
  compile_ns INTEGER NOT NULL,
  executions INTEGER NOT NULL,
  hbm_bytes INTEGER NOT NULL,
  flops INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  least_ns INTEGER NOT NULL,    -- predicted for one execution
  most_ns INTEGER NOT NULL,
  formula TEXT NOT NULL,
  ir TEXT NOT NULL,             -- as traced, and as lowered
  hlo TEXT NOT NULL,
  UNIQUE(run_id, attempt, no),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT;

CREATE VIEW graphs AS
SELECT run.uid AS run, run.name AS name, graph.attempt AS attempt, graph.no AS no, graph.key AS key,
       graph.first_step AS first_step, graph.cause AS cause, nullif(graph.file, '') AS file,
       nullif(graph.line, 0) AS line, graph.nodes AS nodes, graph.inputs AS inputs, graph.outputs AS outputs,
       graph.donated AS donated, graph.compile_ns / 1e9 AS compile_seconds, graph.executions AS executions,
       graph.hbm_bytes AS hbm_bytes, graph.flops AS flops, graph.bytes AS bytes, graph.least_ns / 1e9 AS least_seconds,
       graph.most_ns / 1e9 AS most_seconds
FROM graph
JOIN run ON run.id = graph.run_id
WHERE run.trashed_ms IS NULL;
