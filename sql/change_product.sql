-- Replaces the editable fields of a product, if its document is still one that the client has seen (optimistic lock).
--   $1  product id
--   $2  validators it may have, text[]; NULL: any
--   $3  name
--   $4  description
--   $5  price in cents
--   $6  stock
--   $7  category id; NULL: stays
-- One row: the new version and the transaction that made it, or NULL for both; whether the product was there; and
-- the validator of the new document. The statement is the transaction.
--
-- The row is locked first. Of two clients that saw the same document the second waits for the first's lock and then
-- sees the row as the first left it; and the path is looked up after that wait, not in the statement's snapshot. A
-- category that is renamed after the look is a later edit, which takes nothing of this one back.
/* change product */
WITH locked AS MATERIALIZED (
    SELECT id, edition, stamp, category_id FROM products WHERE id = $1::bigint FOR UPDATE
), seen AS MATERIALIZED (
    SELECT id, product_validator_now(edition, stamp, category_id) AS validator FROM locked
), changed AS (
    UPDATE products AS p
       SET name = $3::text, description = $4::text, price_cents = $5::bigint, stock = $6::integer,
           category_id = coalesce($7::bigint, p.category_id)
      FROM seen
     WHERE p.id = seen.id AND ($2::text[] IS NULL OR seen.validator = ANY ($2::text[]))
 RETURNING p.edition, p.stamp, p.category_id
)
SELECT changed.edition AS version, CASE WHEN changed.edition IS NOT NULL THEN txid_current() END AS transaction_id,
       EXISTS (SELECT FROM seen) AS was_there,
       product_validator_now(changed.edition, changed.stamp, changed.category_id) AS validator
  FROM (VALUES (true)) AS always
  LEFT JOIN changed ON true
