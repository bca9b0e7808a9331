-- Drops the caches that have been doubted and silent since; doubts those that have been silent for too long; deletes
-- what is left of the debts to them, the invalidations that all other caches have confirmed. One row for each that
-- was dropped: id, label, and for how many ms it had been silent.
-- After an outage of the database all seem silent, and each process looks at all of them: locked rows are skipped.
/* drop caches */
WITH silent AS MATERIALIZED (
    SELECT id, doubted_at < clock_timestamp() - 5 * beat_ms * interval '1 ms' AS is_gone
      FROM caches
     WHERE seen_at < clock_timestamp() - silence_ms * interval '1 ms'
       FOR UPDATE SKIP LOCKED
), doubted AS (
    UPDATE caches AS c SET doubted_at = clock_timestamp()
      FROM silent
     WHERE silent.id = c.id AND c.doubted_at IS NULL
), dropped AS (
    DELETE FROM caches AS c
     USING silent
     WHERE silent.id = c.id AND silent.is_gone
 RETURNING c.id, c.label, c.seen_at
), paid AS MATERIALIZED (
    SELECT i.id
      FROM invalidations AS i
     WHERE i.confirmed <> '{}'
       AND NOT EXISTS (SELECT FROM caches AS c
                        WHERE c.id <> ALL (i.confirmed) AND c.id NOT IN (SELECT dropped.id FROM dropped))
       FOR UPDATE SKIP LOCKED
), swept AS (
    DELETE FROM invalidations AS i USING paid WHERE paid.id = i.id
)
SELECT id, label, (extract(epoch FROM clock_timestamp() - seen_at) * 1000)::bigint AS silent_ms
  FROM dropped
