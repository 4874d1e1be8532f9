-- Names that a hook gave to states of a run: acc:save_state("name").  The newest state of a name has it.

CREATE TABLE state_name(
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  state_id INTEGER NOT NULL REFERENCES state(id) ON DELETE CASCADE,
  PRIMARY KEY(run_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX state_name_by_state ON state_name(state_id);

DROP VIEW states;
CREATE VIEW states AS
SELECT state.id AS state, run.uid AS run, run.name AS name, state.attempt AS attempt, state.step AS step,
       state.epoch AS epoch, state.reason AS reason, state.pinned AS pinned, state.superseded AS superseded,
       state.bytes AS bytes, state.new_bytes AS new_bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', state.created_ms / 1000.0, 'unixepoch') AS created,
       (SELECT group_concat(state_name.name, ', ') FROM state_name WHERE state_name.state_id = state.id) AS names
FROM state JOIN run ON run.id = state.run_id
WHERE run.trashed_ms IS NULL;
