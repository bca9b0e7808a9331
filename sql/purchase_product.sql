-- Takes stock from a product: its row is locked first, then read, then changed (pessimistic lock), so a thousand
-- buyers queue and each sees what the one before left.
--   $1  product id
--   $2  quantity
--   $3  key under which the purchase is remembered; NULL: it is not
-- One row: the stock found, NULL if there is no such product; the stock left, the new version and the
-- transaction, NULL if the stock did not suffice. A key that was used before is an error (23505), and nothing
-- is taken. The statement is the transaction.
--
-- "locked" is materialized, so it is run once; by reading from it the UPDATE waits for the lock, and its own
-- row is then the latest, not that of the statement's snapshot.
/* purchase product */
WITH locked AS MATERIALIZED (
    SELECT id, stock FROM products WHERE id = $1::bigint FOR UPDATE
), sold AS (
    UPDATE products AS p
       SET stock = p.stock - $2::integer
      FROM locked
     WHERE p.id = locked.id AND locked.stock >= $2::integer
 RETURNING p.stock, p.edition
), remembered AS (
    INSERT INTO purchases (key, product_id, quantity, stock, version)
    SELECT $3::text, $1::bigint, $2::integer, stock, edition
      FROM sold
     WHERE $3::text IS NOT NULL
)
SELECT locked.stock AS found, sold.stock, sold.edition AS version,
       CASE WHEN sold.edition IS NOT NULL THEN txid_current() END AS transaction_id
  FROM (VALUES (true)) AS always
  LEFT JOIN locked ON true
  LEFT JOIN sold ON true
