-- Those of these transactions that still owe something. One row each.
--   $1  transaction ids, bigint[]
/* unpaid transactions */
SELECT DISTINCT transaction_id
  FROM invalidations
 WHERE transaction_id = ANY ($1::bigint[])
