-- Several products and the paths to their categories: one row for each that exists, in no particular order, with
-- the columns of load_product.sql; one row with a NULL id if none does.
--   $1  product ids
--   $2  delay in ms, once, as in load_product.sql
/* load products */
WITH delay AS MATERIALIZED (
    SELECT CASE WHEN $2::integer > 0 THEN pg_catalog.pg_sleep($2::integer / 1000.0) END
)
SELECT p.id, p.sku, p.name, p.description, p.price_cents, p.stock, p.edition AS version,
       to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at,
       leaf.id AS category_id, leaf.name AS category_name,
       middle.id AS parent_id, middle.name AS parent_name,
       root.id AS grandparent_id, root.name AS grandparent_name,
       product_validator(p.edition, p.stamp, leaf.stamp, middle.stamp, root.stamp) AS validator
  FROM delay
  LEFT JOIN products AS p ON p.id = ANY($1::bigint[])
  LEFT JOIN categories AS leaf ON leaf.id = p.category_id
  LEFT JOIN categories AS middle ON middle.id = leaf.parent_id
  LEFT JOIN categories AS root ON root.id = middle.parent_id
