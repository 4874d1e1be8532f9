-- What each attempt ran on, and what it was made from.

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

-- Texts that made an attempt what it was: included recipes, hook files, the uncommitted changes.
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
       provenance.git_dirty AS git_dirty, provenance.git_untracked AS git_untracked, provenance.git_note AS git_note
FROM attempt
JOIN run ON run.id = attempt.run_id
JOIN recipe ON recipe.id = attempt.recipe_id
LEFT JOIN provenance ON provenance.run_id = attempt.run_id AND provenance.attempt = attempt.no;

CREATE VIEW environments AS
SELECT run.uid AS run, run.name AS name, provenance.attempt AS attempt, fact.key AS key, fact.value AS value
FROM provenance
JOIN run ON run.id = provenance.run_id
JOIN environment ON environment.id = provenance.environment_id
JOIN json_each(environment.json) AS fact;

CREATE VIEW sources AS
SELECT run.uid AS run, run.name AS name, source.attempt AS attempt, source.kind AS kind, source.path AS path,
       length(content.data) AS bytes, lower(hex(content.digest)) AS sha256, CAST(content.data AS TEXT) AS text
FROM source
JOIN run ON run.id = source.run_id
JOIN content ON content.id = source.content_id;
