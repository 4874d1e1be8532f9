-- The data files that an attempt read.

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
