-- Takes up to so many due invalidations for a while that a cache has not confirmed; others skip them. One row each.
--   $1  how many
--   $2  for how long, in ms: a process that has not paid by then has died, and they are due again
--   $3  the cache, uuid
/* claim invalidations */
WITH due AS MATERIALIZED (
    SELECT id
      FROM invalidations
     WHERE due_at <= now() AND $3::uuid <> ALL (confirmed)
     ORDER BY due_at
     LIMIT $1::integer
       FOR UPDATE SKIP LOCKED
)
UPDATE invalidations AS i
   SET due_at = now() + $2::integer * interval '1 ms'
  FROM due
 WHERE i.id = due.id
RETURNING i.id, i.target
