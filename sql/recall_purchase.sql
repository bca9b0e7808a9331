-- What was bought under a key; no row if nothing was.
--   $1  key
/* recall purchase */
SELECT product_id, quantity, stock, version, transaction_id
  FROM purchases
 WHERE key = $1::text
