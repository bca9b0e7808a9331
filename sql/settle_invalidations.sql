-- One cache has confirmed invalidations. They go if it was the last one; otherwise they are due at once for the
-- others, which are notified.
--   $1  their ids, bigint[]
--   $2  transactions all of whose are, bigint[]
--   $3  the cache, uuid
-- Two caches that confirm one row wait for it, in the same order for all rows, and the second sees what the first has
-- left.
/* settle invalidations */
WITH these AS MATERIALIZED (
    SELECT i.id, i.confirmed
      FROM invalidations AS i
     WHERE i.id = ANY ($1::bigint[]) OR i.transaction_id = ANY ($2::bigint[])
     ORDER BY i.id
       FOR UPDATE
), judged AS MATERIALIZED (
    SELECT id, EXISTS (SELECT FROM caches AS c WHERE c.id <> $3::uuid AND c.id <> ALL (these.confirmed)) AS is_owed
      FROM these
), paid AS (
    DELETE FROM invalidations AS i USING judged WHERE judged.id = i.id AND NOT judged.is_owed
), kept AS (
    UPDATE invalidations AS i
       SET confirmed = array_append(array_remove(i.confirmed, $3::uuid), $3::uuid), due_at = clock_timestamp()
      FROM judged
     WHERE judged.id = i.id AND judged.is_owed
 RETURNING i.id
)
SELECT pg_notify('invalidations', '') FROM (SELECT FROM kept LIMIT 1) AS any_kept
