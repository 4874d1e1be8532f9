-- Files that a run keeps.  Their bytes are in `content`, which states share.

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

CREATE VIEW artifacts AS
SELECT run.uid AS run, run.name AS name, artifact.name AS artifact, artifact.attempt AS attempt, artifact.step AS step,
       artifact.kind AS kind, artifact.meta AS meta, artifact.bytes AS bytes, artifact.new_bytes AS new_bytes,
       lower(hex(artifact.digest)) AS sha256, artifact.superseded AS superseded,
       strftime('%Y-%m-%dT%H:%M:%fZ', artifact.created_ms / 1000.0, 'unixepoch') AS created
FROM artifact JOIN run ON run.id = artifact.run_id;
