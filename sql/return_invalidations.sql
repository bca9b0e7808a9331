-- Gives claimed invalidations back that could not be paid: they are due again at once.
--   $1  their ids, bigint[]
/* return invalidations */
UPDATE invalidations
   SET due_at = now()
 WHERE id = ANY ($1::bigint[])
