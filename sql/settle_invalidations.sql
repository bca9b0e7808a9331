-- Deletes invalidations that Redis has confirmed.
--   $1  their ids, bigint[]
--   $2  transactions all of whose are, bigint[]
/* settle invalidations */
DELETE FROM invalidations
 WHERE id = ANY ($1::bigint[]) OR transaction_id = ANY ($2::bigint[])
