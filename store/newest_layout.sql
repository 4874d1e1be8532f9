-- The layout of a new store: what the migrations make. Written by newest_layout_test with RUNNER_UPDATE=1.
CREATE TABLE recipe(
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,  -- SHA-256 of the four texts
  hash TEXT NOT NULL,           -- of the canonical form: equal for equal experiments
  text TEXT NOT NULL,
  resolved TEXT NOT NULL,       -- JSON, every default filled in
  origins TEXT NOT NULL         -- JSON, where each value comes from
) STRICT;
CREATE TABLE run(
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  parent_id INTEGER REFERENCES run(id) ON DELETE SET NULL,
  seed INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL  -- number of the newest
, trashed_ms INTEGER) STRICT;
CREATE INDEX run_by_name ON run(name);
CREATE INDEX run_by_parent ON run(parent_id);
CREATE TABLE attempt(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  no INTEGER NOT NULL,
  recipe_id INTEGER NOT NULL REFERENCES recipe(id),
  start_step INTEGER NOT NULL,
  from_state INTEGER,  -- no foreign key: a fact that outlives the state
  backend TEXT NOT NULL,
  num_processes INTEGER NOT NULL,
  cpu_features TEXT NOT NULL,
  kernels TEXT NOT NULL,
  binary_version TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_start INTEGER NOT NULL,      -- kernel's start time of the process, in clock ticks since boot
  boot_id TEXT NOT NULL,
  pid_namespace TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  heartbeat_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  status TEXT NOT NULL CHECK(status IN ('running', 'done', 'failed', 'interrupted')),
  exit_code INTEGER,
  reason TEXT NOT NULL DEFAULT '',
  summary TEXT NOT NULL DEFAULT '',
  superseded_points INTEGER NOT NULL,        -- of older attempts, taken back when this one began
  dropped_points INTEGER NOT NULL DEFAULT 0, planned_steps INTEGER,  -- refused because the store could not be written for long
  PRIMARY KEY(run_id, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_by_recipe ON attempt(recipe_id);
CREATE INDEX attempt_by_state ON attempt(from_state) WHERE from_state IS NOT NULL;
CREATE TABLE param(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  type TEXT NOT NULL CHECK(type IN ('null', 'bool', 'int', 'float', 'text')),
  value ANY,  -- NULL is NaN where the type is float
  PRIMARY KEY(run_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX param_by_key ON param(key, value);
CREATE TABLE series(
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  n INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  first_value REAL,  -- NULL is NaN, in every value of this table
  last_value REAL,
  min_value REAL,    -- over the points that are not NaN
  min_step INTEGER NOT NULL,
  max_value REAL,
  max_step INTEGER NOT NULL,
  sum REAL NOT NULL,  -- over the finite points
  nan_count INTEGER NOT NULL,
  inf_count INTEGER NOT NULL, larger_is_better INTEGER,
  UNIQUE(run_id, name)
) STRICT;
CREATE TABLE "encoded_chunk"(
  id INTEGER PRIMARY KEY,
  series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
  no INTEGER NOT NULL,  -- from 0, in the order recorded
  n INTEGER NOT NULL,
  max_step INTEGER NOT NULL,
  data BLOB NOT NULL,
  UNIQUE(series_id, no)
) STRICT;
CREATE TABLE event(
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  level TEXT NOT NULL,
  kind TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_run ON event(run_id);
CREATE TABLE state(
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: people write state ids down
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  step INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  reason TEXT NOT NULL,
  pinned INTEGER NOT NULL,
  superseded INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL,
  new_bytes INTEGER NOT NULL,
  created_ms INTEGER NOT NULL
, manifest BLOB) STRICT;
CREATE INDEX state_by_run ON state(run_id);
CREATE TABLE state_metric(
  state_id INTEGER NOT NULL REFERENCES state(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value REAL,
  PRIMARY KEY(state_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE section(
  state_id INTEGER NOT NULL REFERENCES state(id) ON DELETE CASCADE,
  no INTEGER NOT NULL,
  name TEXT NOT NULL,
  meta TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY(state_id, no),
  UNIQUE(state_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE content(
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,  -- SHA-256 of data
  data BLOB NOT NULL
) STRICT;
CREATE TABLE section_content(
  state_id INTEGER NOT NULL,
  section_no INTEGER NOT NULL,
  no INTEGER NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content(id),
  PRIMARY KEY(state_id, section_no, no),
  FOREIGN KEY(state_id, section_no) REFERENCES section(state_id, no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX section_content_by_content ON section_content(content_id);
CREATE TABLE tag(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY(run_id, tag)
) STRICT, WITHOUT ROWID;
CREATE TABLE note(
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  time_ms INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX note_by_run ON note(run_id);
CREATE TABLE artifact(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  step INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  meta TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  new_bytes INTEGER NOT NULL,
  digest BLOB NOT NULL,  -- SHA-256 of all its bytes
  superseded INTEGER NOT NULL DEFAULT 0,
  created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX artifact_by_run ON artifact(run_id);
CREATE TABLE artifact_content(
  artifact_id INTEGER NOT NULL REFERENCES artifact(id) ON DELETE CASCADE,
  no INTEGER NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content(id),
  PRIMARY KEY(artifact_id, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_content_by_content ON artifact_content(content_id);
CREATE TABLE environment(
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,  -- SHA-256 of json
  json TEXT NOT NULL            -- one object, without nesting
) STRICT;
CREATE TABLE provenance(
  run_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  environment_id INTEGER NOT NULL REFERENCES environment(id),
  git_commit TEXT NOT NULL,     -- empty: git_note says why
  git_branch TEXT NOT NULL,
  git_dirty INTEGER,            -- NULL: not known
  git_untracked TEXT NOT NULL,  -- JSON, names
  git_note TEXT NOT NULL,       -- what is missing, and why
  PRIMARY KEY(run_id, attempt),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX provenance_by_environment ON provenance(environment_id);
CREATE TABLE source(
  run_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind TEXT NOT NULL,
  path TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content(id),
  PRIMARY KEY(run_id, attempt, kind, path),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX source_by_content ON source(content_id);
CREATE INDEX attempt_by_dropped_points ON attempt(run_id) WHERE dropped_points > 0;
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
CREATE VIEW params AS
SELECT run.uid AS run, run.name AS name, param.key AS key, param.type AS type, param.value AS value
FROM param JOIN run ON run.id = param.run_id
WHERE run.trashed_ms IS NULL;
CREATE VIEW events AS
SELECT run.uid AS run, run.name AS name, event.attempt AS attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', event.time_ms / 1000.0, 'unixepoch') AS time,
       event.level AS level, event.kind AS kind, event.json AS json
FROM event JOIN run ON run.id = event.run_id
WHERE run.trashed_ms IS NULL;
CREATE VIEW artifacts AS
SELECT run.uid AS run, run.name AS name, artifact.name AS artifact, artifact.attempt AS attempt, artifact.step AS step,
       artifact.kind AS kind, artifact.meta AS meta, artifact.bytes AS bytes, artifact.new_bytes AS new_bytes,
       lower(hex(artifact.digest)) AS sha256, artifact.superseded AS superseded,
       strftime('%Y-%m-%dT%H:%M:%fZ', artifact.created_ms / 1000.0, 'unixepoch') AS created
FROM artifact JOIN run ON run.id = artifact.run_id
WHERE run.trashed_ms IS NULL;
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
CREATE VIEW environments AS
SELECT run.uid AS run, run.name AS name, provenance.attempt AS attempt, fact.key AS key, fact.value AS value
FROM provenance
JOIN run ON run.id = provenance.run_id
JOIN environment ON environment.id = provenance.environment_id
JOIN json_each(environment.json) AS fact
WHERE run.trashed_ms IS NULL;
CREATE VIEW sources AS
SELECT run.uid AS run, run.name AS name, source.attempt AS attempt, source.kind AS kind, source.path AS path,
       length(content.data) AS bytes, lower(hex(content.digest)) AS sha256, CAST(content.data AS TEXT) AS text
FROM source
JOIN run ON run.id = source.run_id
JOIN content ON content.id = source.content_id
WHERE run.trashed_ms IS NULL;
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
  hlo TEXT NOT NULL, unpadded_bytes INTEGER NOT NULL DEFAULT 0, padded_bytes INTEGER NOT NULL DEFAULT 0,
  UNIQUE(run_id, attempt, no),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT;
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
CREATE TABLE compiled_graph(
  key BLOB PRIMARY KEY,         -- SHA-256 of the binary and of what the entry was made from
  entry BLOB NOT NULL,
  digest BLOB NOT NULL,         -- SHA-256 of the entry
  created_ms INTEGER NOT NULL,
  used_ms INTEGER NOT NULL      -- by a run, last
) STRICT, WITHOUT ROWID;
CREATE TABLE data_file(
  run_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  key TEXT NOT NULL,       -- of the recipe, such as data.train.path
  path TEXT NOT NULL,
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  digest BLOB,             -- SHA-256 of the file; NULL: it changed while the run read it, or could not be read again
  PRIMARY KEY(run_id, attempt, key),
  FOREIGN KEY(run_id, attempt) REFERENCES attempt(run_id, no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE VIEW data_files AS
SELECT run.uid AS run, run.name AS name, data_file.attempt AS attempt, data_file.key AS key, data_file.path AS path,
       data_file.rows AS rows, data_file.bytes AS bytes,
       CASE WHEN data_file.digest IS NOT NULL THEN lower(hex(data_file.digest)) END AS sha256
FROM data_file JOIN run ON run.id = data_file.run_id
WHERE run.trashed_ms IS NULL;
CREATE TABLE chunk(
  id INTEGER PRIMARY KEY,
  series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
  no INTEGER NOT NULL,  -- from 0, in the order recorded
  n INTEGER NOT NULL,   -- 0: the points are lost
  max_step INTEGER NOT NULL,
  crc INTEGER NOT NULL,
  -- The k-th step is first_step + k * step_stride + step_k.  Times alike.  NULL as a value is NaN.
  first_step INTEGER NOT NULL,
  step_stride INTEGER NOT NULL,
  first_time INTEGER NOT NULL,
  time_stride INTEGER NOT NULL,
  value_0 REAL, value_1 REAL, value_2 REAL, value_3 REAL, value_4 REAL, value_5 REAL, value_6 REAL, value_7 REAL,
  value_8 REAL, value_9 REAL, value_10 REAL, value_11 REAL, value_12 REAL, value_13 REAL, value_14 REAL, value_15 REAL,
  value_16 REAL, value_17 REAL, value_18 REAL, value_19 REAL, value_20 REAL, value_21 REAL, value_22 REAL, value_23 REAL,
  value_24 REAL, value_25 REAL, value_26 REAL, value_27 REAL, value_28 REAL, value_29 REAL, value_30 REAL, value_31 REAL,
  step_0 INTEGER, step_1 INTEGER, step_2 INTEGER, step_3 INTEGER, step_4 INTEGER, step_5 INTEGER, step_6 INTEGER,
  step_7 INTEGER, step_8 INTEGER, step_9 INTEGER, step_10 INTEGER, step_11 INTEGER, step_12 INTEGER, step_13 INTEGER,
  step_14 INTEGER, step_15 INTEGER, step_16 INTEGER, step_17 INTEGER, step_18 INTEGER, step_19 INTEGER, step_20 INTEGER,
  step_21 INTEGER, step_22 INTEGER, step_23 INTEGER, step_24 INTEGER, step_25 INTEGER, step_26 INTEGER, step_27 INTEGER,
  step_28 INTEGER, step_29 INTEGER, step_30 INTEGER, step_31 INTEGER,
  time_0 INTEGER, time_1 INTEGER, time_2 INTEGER, time_3 INTEGER, time_4 INTEGER, time_5 INTEGER, time_6 INTEGER,
  time_7 INTEGER, time_8 INTEGER, time_9 INTEGER, time_10 INTEGER, time_11 INTEGER, time_12 INTEGER, time_13 INTEGER,
  time_14 INTEGER, time_15 INTEGER, time_16 INTEGER, time_17 INTEGER, time_18 INTEGER, time_19 INTEGER, time_20 INTEGER,
  time_21 INTEGER, time_22 INTEGER, time_23 INTEGER, time_24 INTEGER, time_25 INTEGER, time_26 INTEGER, time_27 INTEGER,
  time_28 INTEGER, time_29 INTEGER, time_30 INTEGER, time_31 INTEGER,
  UNIQUE(series_id, no)
) STRICT;
CREATE TABLE lane(k INTEGER PRIMARY KEY) STRICT;
CREATE VIEW metrics AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, series.n AS n, series.first_step AS first_step,
       series.last_step AS last_step, series.first_value AS first, series.last_value AS last, series.min_value AS min,
       series.min_step AS min_step, series.max_value AS max, series.max_step AS max_step,
       series.sum / nullif(series.n - series.nan_count - series.inf_count, 0) AS mean,
       series.nan_count AS nan_count, series.inf_count AS inf_count,
       14 * series.n AS bytes,  -- about
       series.larger_is_better AS larger_is_better,
       CASE series.larger_is_better WHEN 1 THEN series.max_value WHEN 0 THEN series.min_value END AS best,
       CASE series.larger_is_better WHEN 1 THEN series.max_step WHEN 0 THEN series.min_step END AS best_step
FROM series JOIN run ON run.id = series.run_id
WHERE run.trashed_ms IS NULL;
CREATE VIEW points AS
SELECT run.uid AS run, run.name AS name, series.name AS metric,
       chunk.first_step + lane.k * chunk.step_stride + CASE lane.k
         WHEN 0 THEN step_0 WHEN 1 THEN step_1 WHEN 2 THEN step_2 WHEN 3 THEN step_3 WHEN 4 THEN step_4
         WHEN 5 THEN step_5 WHEN 6 THEN step_6 WHEN 7 THEN step_7 WHEN 8 THEN step_8 WHEN 9 THEN step_9
         WHEN 10 THEN step_10 WHEN 11 THEN step_11 WHEN 12 THEN step_12 WHEN 13 THEN step_13 WHEN 14 THEN step_14
         WHEN 15 THEN step_15 WHEN 16 THEN step_16 WHEN 17 THEN step_17 WHEN 18 THEN step_18 WHEN 19 THEN step_19
         WHEN 20 THEN step_20 WHEN 21 THEN step_21 WHEN 22 THEN step_22 WHEN 23 THEN step_23 WHEN 24 THEN step_24
         WHEN 25 THEN step_25 WHEN 26 THEN step_26 WHEN 27 THEN step_27 WHEN 28 THEN step_28 WHEN 29 THEN step_29
         WHEN 30 THEN step_30 WHEN 31 THEN step_31 END AS step,
       CASE lane.k
         WHEN 0 THEN value_0 WHEN 1 THEN value_1 WHEN 2 THEN value_2 WHEN 3 THEN value_3 WHEN 4 THEN value_4
         WHEN 5 THEN value_5 WHEN 6 THEN value_6 WHEN 7 THEN value_7 WHEN 8 THEN value_8 WHEN 9 THEN value_9
         WHEN 10 THEN value_10 WHEN 11 THEN value_11 WHEN 12 THEN value_12 WHEN 13 THEN value_13 WHEN 14 THEN value_14
         WHEN 15 THEN value_15 WHEN 16 THEN value_16 WHEN 17 THEN value_17 WHEN 18 THEN value_18 WHEN 19 THEN value_19
         WHEN 20 THEN value_20 WHEN 21 THEN value_21 WHEN 22 THEN value_22 WHEN 23 THEN value_23 WHEN 24 THEN value_24
         WHEN 25 THEN value_25 WHEN 26 THEN value_26 WHEN 27 THEN value_27 WHEN 28 THEN value_28 WHEN 29 THEN value_29
         WHEN 30 THEN value_30 WHEN 31 THEN value_31 END AS value,
       chunk.first_time + lane.k * chunk.time_stride + CASE lane.k
         WHEN 0 THEN time_0 WHEN 1 THEN time_1 WHEN 2 THEN time_2 WHEN 3 THEN time_3 WHEN 4 THEN time_4
         WHEN 5 THEN time_5 WHEN 6 THEN time_6 WHEN 7 THEN time_7 WHEN 8 THEN time_8 WHEN 9 THEN time_9
         WHEN 10 THEN time_10 WHEN 11 THEN time_11 WHEN 12 THEN time_12 WHEN 13 THEN time_13 WHEN 14 THEN time_14
         WHEN 15 THEN time_15 WHEN 16 THEN time_16 WHEN 17 THEN time_17 WHEN 18 THEN time_18 WHEN 19 THEN time_19
         WHEN 20 THEN time_20 WHEN 21 THEN time_21 WHEN 22 THEN time_22 WHEN 23 THEN time_23 WHEN 24 THEN time_24
         WHEN 25 THEN time_25 WHEN 26 THEN time_26 WHEN 27 THEN time_27 WHEN 28 THEN time_28 WHEN 29 THEN time_29
         WHEN 30 THEN time_30 WHEN 31 THEN time_31 END AS time_ms
FROM run
CROSS JOIN series ON series.run_id = run.id
CROSS JOIN chunk ON chunk.series_id = series.id
CROSS JOIN lane ON lane.k < chunk.n
WHERE run.trashed_ms IS NULL;
CREATE TABLE state_name(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  state_id INTEGER NOT NULL REFERENCES state(id) ON DELETE CASCADE,
  PRIMARY KEY(run_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX state_name_by_state ON state_name(state_id);
CREATE VIEW states AS
SELECT state.id AS state, run.uid AS run, run.name AS name, state.attempt AS attempt, state.step AS step,
       state.epoch AS epoch, state.reason AS reason, state.pinned AS pinned, state.superseded AS superseded,
       state.bytes AS bytes, state.new_bytes AS new_bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', state.created_ms / 1000.0, 'unixepoch') AS created,
       (SELECT group_concat(state_name.name, ', ') FROM state_name WHERE state_name.state_id = state.id) AS names
FROM state JOIN run ON run.id = state.run_id
WHERE run.trashed_ms IS NULL;
INSERT INTO lane VALUES(0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31);
