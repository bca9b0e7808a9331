-- Gives claimed invalidations back that could not be paid: they are due again at once, and processes of other caches
-- are notified, because they may be able to.
--   $1  their ids, bigint[]
--   $2  the cache that could not, uuid
/* return invalidations */
WITH these AS MATERIALIZED (
    SELECT id FROM invalidations WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
), returned AS (
    UPDATE invalidations AS i SET due_at = now() FROM these WHERE these.id = i.id RETURNING i.id
)
SELECT pg_notify('invalidations', '')
 WHERE EXISTS (SELECT FROM returned) AND EXISTS (SELECT FROM caches WHERE id <> $2::uuid)
