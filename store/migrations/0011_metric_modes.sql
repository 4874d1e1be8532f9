-- Whether larger values of a metric are better; NULL: recorded by a version that did not know.
ALTER TABLE series ADD COLUMN larger_is_better INTEGER;

DROP VIEW metrics;
CREATE VIEW metrics AS
SELECT run.uid AS run, run.name AS name, series.name AS metric, series.n AS n, series.first_step AS first_step,
       series.last_step AS last_step, series.first_value AS first, series.last_value AS last, series.min_value AS min,
       series.min_step AS min_step, series.max_value AS max, series.max_step AS max_step,
       series.sum / nullif(series.n - series.nan_count - series.inf_count, 0) AS mean,
       series.nan_count AS nan_count, series.inf_count AS inf_count,
       (SELECT sum(length(chunk.data)) FROM chunk WHERE chunk.series_id = series.id) AS bytes,
       series.larger_is_better AS larger_is_better,
       CASE series.larger_is_better WHEN 1 THEN series.max_value WHEN 0 THEN series.min_value END AS best,
       CASE series.larger_is_better WHEN 1 THEN series.max_step WHEN 0 THEN series.min_step END AS best_step
FROM series JOIN run ON run.id = series.run_id
WHERE run.trashed_ms IS NULL;
