-- The whole category tree, parents before their children: one row per category. Only leaves have products.
--   $1  delay in ms
-- About the delay see load_product.sql.
/* load catalog */
WITH RECURSIVE delay AS MATERIALIZED (
    SELECT CASE WHEN $1::integer > 0 THEN pg_catalog.pg_sleep($1::integer / 1000.0) END
), tree AS (
    SELECT c.id, c.level, c.name, ARRAY[c.id] AS path
      FROM categories AS c
     WHERE c.parent_id IS NULL
    UNION ALL
    SELECT c.id, c.level, c.name, tree.path || c.id
      FROM tree
      JOIN categories AS c ON c.parent_id = tree.id
), counted AS (
    SELECT category_id, count(*) AS product_count
      FROM products
     GROUP BY category_id
)
SELECT tree.id, tree.level, tree.name, coalesce(counted.product_count, 0) AS product_count
  FROM delay
  LEFT JOIN tree ON true
  LEFT JOIN counted ON counted.category_id = tree.id
 ORDER BY tree.path
