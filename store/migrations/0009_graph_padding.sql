-- What the tensors of a graph take at its fullest moment, with padding and without.

ALTER TABLE graph ADD COLUMN unpadded_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE graph ADD COLUMN padded_bytes INTEGER NOT NULL DEFAULT 0;

DROP VIEW graphs;
CREATE VIEW graphs AS
SELECT run.uid AS run, run.name AS name, graph.attempt AS attempt, graph.no AS no, graph.key AS key,
       graph.first_step AS first_step, graph.cause AS cause, nullif(graph.file, '') AS file,
       nullif(graph.line, 0) AS line, graph.nodes AS nodes, graph.inputs AS inputs, graph.outputs AS outputs,
       graph.donated AS donated, graph.compile_ns / 1e9 AS compile_seconds, graph.executions AS executions,
       graph.hbm_bytes AS hbm_bytes, graph.unpadded_bytes AS unpadded_bytes, graph.padded_bytes AS padded_bytes,
       graph.flops AS flops, graph.bytes AS bytes, graph.least_ns / 1e9 AS least_seconds,
       graph.most_ns / 1e9 AS most_seconds
FROM graph
JOIN run ON run.id = graph.run_id
WHERE run.trashed_ms IS NULL;
