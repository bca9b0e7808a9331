-- Replaces what can be edited of a product, if it still is the version the client has seen (optimistic lock).
--   $1  product id
--   $2  versions it may have, bigint[]; NULL: any
--   $3  name
--   $4  description
--   $5  price in cents
--   $6  stock
--   $7  category id; NULL: stays
-- One row: the new version and the transaction that made it, or NULL for both; and whether the product was
-- there. Of two who saw the same version the second waits for the first's lock and then sees the row as that
-- one left it, so its condition fails. The statement is the transaction.
/* change product */
WITH changed AS (
    UPDATE products
       SET name = $3::text, description = $4::text, price_cents = $5::bigint, stock = $6::integer,
           category_id = coalesce($7::bigint, category_id)
     WHERE id = $1::bigint AND ($2::bigint[] IS NULL OR version = ANY ($2::bigint[]))
 RETURNING version
)
SELECT changed.version, CASE WHEN changed.version IS NOT NULL THEN txid_current() END AS transaction_id,
       EXISTS (SELECT FROM products WHERE id = $1::bigint) AS was_there
  FROM (VALUES (true)) AS always
  LEFT JOIN changed ON true
