-- Forgets the keys of purchases made more than a day ago. One row: how many.
--   $1  how many at most
/* forget purchases */
WITH forgotten AS (
    DELETE FROM purchases
     WHERE key IN (SELECT key FROM purchases WHERE made_at < now() - interval '1 day' LIMIT $1::integer)
 RETURNING key
)
SELECT count(*) FROM forgotten
