-- The targets that a transaction owes: what it touched, only the triggers know.
--   $1  transaction id
/* owed invalidations */
SELECT DISTINCT target
  FROM invalidations
 WHERE transaction_id = $1::bigint
