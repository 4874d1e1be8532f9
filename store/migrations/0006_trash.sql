-- A trash for runs: `rm` only marks them.
ALTER TABLE run ADD COLUMN trashed_ms INTEGER;  -- when it was moved there; NULL: it was not

DROP VIEW runs;
CREATE VIEW runs AS
SELECT run.uid AS run, run.name AS name, attempt.status AS status, attempt.exit_code AS exit_code,
       attempt.reason AS reason, attempt.backend AS backend, attempt.num_processes AS num_processes, run.seed AS seed,
       parent.uid AS parent, run.attempts AS attempts,
       strftime('%Y-%m-%dT%H:%M:%fZ', run.created_ms / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.started_ms / 1000.0, 'unixepoch') AS started,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.ended_ms / 1000.0, 'unixepoch') AS ended,
       (coalesce(attempt.ended_ms, attempt.heartbeat_ms) - attempt.started_ms) / 1000.0 AS seconds,
       (SELECT sum(a.dropped_points) FROM attempt AS a WHERE a.run_id = run.id) AS dropped_points,
       attempt.host AS host, attempt.pid AS pid,
       (SELECT group_concat(tag, ' ') FROM tag WHERE tag.run_id = run.id) AS tags,
       recipe.hash AS recipe_hash, recipe.text AS recipe, attempt.cpu_features AS cpu_features,
       attempt.kernels AS kernels, attempt.binary_version AS binary_version, attempt.summary AS summary,
       strftime('%Y-%m-%dT%H:%M:%fZ', run.trashed_ms / 1000.0, 'unixepoch') AS trashed
FROM run
JOIN attempt ON attempt.run_id = run.id AND attempt.no = run.attempts
JOIN recipe ON recipe.id = attempt.recipe_id
LEFT JOIN run AS parent ON parent.id = run.parent_id;
