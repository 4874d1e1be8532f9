-- Views leave out what is in the trash; `trash` has it.  How far an attempt meant to go.
ALTER TABLE attempt ADD COLUMN planned_steps INTEGER;  -- of the whole run; NULL: not known

-- Nearly empty: so that a list need not read every attempt to its end.
CREATE INDEX attempt_by_dropped_points ON attempt(run_id) WHERE dropped_points > 0;

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
LEFT JOIN run AS parent ON parent.id = run.parent_id
WHERE run.trashed_ms IS NULL;

CREATE VIEW trash AS
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
LEFT JOIN run AS parent ON parent.id = run.parent_id
WHERE run.trashed_ms IS NOT NULL;

DROP VIEW params;
CREATE VIEW params AS
SELECT run.uid AS run, run.name AS name, param.key AS key, param.type AS type, param.value AS value
FROM param JOIN run ON run.id = param.run_id
WHERE run.trashed_ms IS NULL;

DROP VIEW metrics;
CREATE VIEW metrics AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, series.n AS n, series.first_step AS first_step,
       series.last_step AS last_step, series.first_value AS first, series.last_value AS last, series.min_value AS min,
       series.min_step AS min_step, series.max_value AS max, series.max_step AS max_step,
       series.sum / nullif(series.n - series.nan_count - series.inf_count, 0) AS mean,
       series.nan_count AS nan_count, series.inf_count AS inf_count,
       (SELECT sum(length(chunk.data)) FROM chunk WHERE chunk.series_id = series.id) AS bytes
FROM series JOIN run ON run.id = series.run_id
WHERE run.trashed_ms IS NULL;

DROP VIEW points;
CREATE VIEW points AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, point.step AS step, point.value AS value,
       point.time_ms AS time_ms
FROM run
JOIN series ON series.run_id = run.id
JOIN chunk ON chunk.series_id = series.id
JOIN chunk_points(chunk.data) AS point
WHERE run.trashed_ms IS NULL;

DROP VIEW states;
CREATE VIEW states AS
SELECT state.id AS state, run.uid AS run, run.name AS name, state.attempt AS attempt, state.step AS step,
       state.epoch AS epoch, state.reason AS reason, state.pinned AS pinned, state.superseded AS superseded,
       state.bytes AS bytes, state.new_bytes AS new_bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', state.created_ms / 1000.0, 'unixepoch') AS created
FROM state JOIN run ON run.id = state.run_id
WHERE run.trashed_ms IS NULL;

DROP VIEW events;
CREATE VIEW events AS
SELECT run.uid AS run, run.name AS name, event.attempt AS attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', event.time_ms / 1000.0, 'unixepoch') AS time,
       event.level AS level, event.kind AS kind, event.json AS json
FROM event JOIN run ON run.id = event.run_id
WHERE run.trashed_ms IS NULL;

DROP VIEW artifacts;
CREATE VIEW artifacts AS
SELECT run.uid AS run, run.name AS name, artifact.name AS artifact, artifact.attempt AS attempt, artifact.step AS step,
       artifact.kind AS kind, artifact.meta AS meta, artifact.bytes AS bytes, artifact.new_bytes AS new_bytes,
       lower(hex(artifact.digest)) AS sha256, artifact.superseded AS superseded,
       strftime('%Y-%m-%dT%H:%M:%fZ', artifact.created_ms / 1000.0, 'unixepoch') AS created
FROM artifact JOIN run ON run.id = artifact.run_id
WHERE run.trashed_ms IS NULL;

DROP VIEW attempts;
CREATE VIEW attempts AS
SELECT run.uid AS run, run.name AS name, attempt.no AS attempt,
       CASE WHEN attempt.status = 'running' AND attempt.no < run.attempts THEN 'crashed' ELSE attempt.status END AS status,
       attempt.exit_code AS exit_code, attempt.reason AS reason, attempt.start_step AS start_step,
       attempt.from_state AS from_state, attempt.superseded_points AS superseded_points,
       attempt.dropped_points AS dropped_points, attempt.backend AS backend, attempt.num_processes AS num_processes,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.started_ms / 1000.0, 'unixepoch') AS started,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.ended_ms / 1000.0, 'unixepoch') AS ended,
       (coalesce(attempt.ended_ms, attempt.heartbeat_ms) - attempt.started_ms) / 1000.0 AS seconds,
       attempt.host AS host, attempt.pid AS pid, attempt.cpu_features AS cpu_features, attempt.kernels AS kernels,
       attempt.binary_version AS binary_version, recipe.hash AS recipe_hash,
       nullif(provenance.git_commit, '') AS git_commit, nullif(provenance.git_branch, '') AS git_branch,
       provenance.git_dirty AS git_dirty, provenance.git_untracked AS git_untracked, provenance.git_note AS git_note,
       attempt.planned_steps AS planned_steps
FROM attempt
JOIN run ON run.id = attempt.run_id
JOIN recipe ON recipe.id = attempt.recipe_id
LEFT JOIN provenance ON provenance.run_id = attempt.run_id AND provenance.attempt = attempt.no
WHERE run.trashed_ms IS NULL;

DROP VIEW environments;
CREATE VIEW environments AS
SELECT run.uid AS run, run.name AS name, provenance.attempt AS attempt, fact.key AS key, fact.value AS value
FROM provenance
JOIN run ON run.id = provenance.run_id
JOIN environment ON environment.id = provenance.environment_id
JOIN json_each(environment.json) AS fact
WHERE run.trashed_ms IS NULL;

DROP VIEW sources;
CREATE VIEW sources AS
SELECT run.uid AS run, run.name AS name, source.attempt AS attempt, source.kind AS kind, source.path AS path,
       length(content.data) AS bytes, lower(hex(content.digest)) AS sha256, CAST(content.data AS TEXT) AS text
FROM source
JOIN run ON run.id = source.run_id
JOIN content ON content.id = source.content_id
WHERE run.trashed_ms IS NULL;
