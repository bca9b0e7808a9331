-- The targets that a transaction owes (only the triggers know them), and whether it owes them to other caches, too.
--   $1  transaction id
--   $2  the cache, uuid; NULL: not known
/* owed invalidations */
SELECT DISTINCT target, EXISTS (SELECT FROM caches WHERE id IS DISTINCT FROM $2::uuid) AS to_others
  FROM invalidations
 WHERE transaction_id = $1::bigint
