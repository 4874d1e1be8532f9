-- The first layout.  docs/store.md explains it; the views at the end are the public part.

-- Distinct recipes; an attempt names the one it ran.
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
) STRICT;
CREATE INDEX run_by_name ON run(name);
CREATE INDEX run_by_parent ON run(parent_id);

-- One process that works on a run.  The newest one's status is the run's.
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
  dropped_points INTEGER NOT NULL DEFAULT 0,  -- refused because the store could not be written for long
  PRIMARY KEY(run_id, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_by_recipe ON attempt(recipe_id);
CREATE INDEX attempt_by_state ON attempt(from_state) WHERE from_state IS NOT NULL;

-- Leaves of the resolved recipe of the newest attempt.
CREATE TABLE param(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  type TEXT NOT NULL CHECK(type IN ('null', 'bool', 'int', 'float', 'text')),
  value ANY,  -- NULL is NaN where the type is float
  PRIMARY KEY(run_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX param_by_key ON param(key, value);

-- A metric of a run with its summary, so that lists and comparisons never read points.
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
  inf_count INTEGER NOT NULL,
  UNIQUE(run_id, name)
) STRICT;

-- Up to 512 points each, encoded (store/codec.h).  The last chunk of a series grows in place.
CREATE TABLE chunk(
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
) STRICT;
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

-- Bytes of states, once per content.
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

-- Public views.  A column is never renamed or removed; new ones may be added.

CREATE VIEW runs AS
SELECT run.uid AS run, run.name AS name, attempt.status AS status, attempt.exit_code AS exit_code,
       attempt.reason AS reason, attempt.backend AS backend, attempt.num_processes AS num_processes, run.seed AS seed,
       parent.uid AS parent, run.attempts AS attempts,
       strftime('%Y-%m-%dT%H:%M:%fZ', run.created_ms / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.started_ms / 1000.0, 'unixepoch') AS started,
       strftime('%Y-%m-%dT%H:%M:%fZ', attempt.ended_ms / 1000.0, 'unixepoch') AS ended,
       (coalesce(attempt.ended_ms, attempt.heartbeat_ms) - attempt.started_ms) / 1000.0 AS seconds,
       (SELECT sum(a.dropped_points) FROM attempt AS a WHERE a.run_id = run.id) AS dropped_points, attempt.host AS host, attempt.pid AS pid,
       (SELECT group_concat(tag, ' ') FROM tag WHERE tag.run_id = run.id) AS tags,
       recipe.hash AS recipe_hash, recipe.text AS recipe, attempt.cpu_features AS cpu_features,
       attempt.kernels AS kernels, attempt.binary_version AS binary_version, attempt.summary AS summary
FROM run
JOIN attempt ON attempt.run_id = run.id AND attempt.no = run.attempts
JOIN recipe ON recipe.id = attempt.recipe_id
LEFT JOIN run AS parent ON parent.id = run.parent_id;

CREATE VIEW params AS
SELECT run.uid AS run, run.name AS name, param.key AS key, param.type AS type, param.value AS value
FROM param JOIN run ON run.id = param.run_id;

CREATE VIEW metrics AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, series.n AS n, series.first_step AS first_step,
       series.last_step AS last_step, series.first_value AS first, series.last_value AS last, series.min_value AS min,
       series.min_step AS min_step, series.max_value AS max, series.max_step AS max_step,
       series.sum / nullif(series.n - series.nan_count - series.inf_count, 0) AS mean,
       series.nan_count AS nan_count, series.inf_count AS inf_count
FROM series JOIN run ON run.id = series.run_id;

-- chunk_points is a table-valued function of runner's own connections: use `runner sql` for this view.
CREATE VIEW points AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, point.step AS step, point.value AS value,
       point.time_ms AS time_ms
FROM run
JOIN series ON series.run_id = run.id
JOIN chunk ON chunk.series_id = series.id
JOIN chunk_points(chunk.data) AS point;

CREATE VIEW states AS
SELECT state.id AS state, run.uid AS run, run.name AS name, state.attempt AS attempt, state.step AS step,
       state.epoch AS epoch, state.reason AS reason, state.pinned AS pinned, state.superseded AS superseded,
       state.bytes AS bytes, state.new_bytes AS new_bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', state.created_ms / 1000.0, 'unixepoch') AS created
FROM state JOIN run ON run.id = state.run_id;

CREATE VIEW events AS
SELECT run.uid AS run, run.name AS name, event.attempt AS attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', event.time_ms / 1000.0, 'unixepoch') AS time,
       event.level AS level, event.kind AS kind, event.json AS json
FROM event JOIN run ON run.id = event.run_id;
