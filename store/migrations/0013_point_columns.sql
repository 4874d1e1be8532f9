-- Any program can read points: a chunk has a column for each.  Code then converts encoded_chunk and drops it.

DROP VIEW metrics;
DROP VIEW points;
ALTER TABLE chunk RENAME TO encoded_chunk;

-- Up to 32 points.  The last chunk of a series grows in place.
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

-- The numbers of the points in a chunk.
CREATE TABLE lane(k INTEGER PRIMARY KEY) STRICT;
INSERT INTO lane VALUES(0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15),
  (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31);

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

-- CROSS JOIN keeps this order of the loops.
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
