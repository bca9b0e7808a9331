-- One category, its children and one page of its products by keyset: one row per child and product, the
-- category's own columns in each; one row with a NULL part if it has neither; a NULL id if it is absent.
--   $1  category id
--   $2  the page begins after this product id; 0: the first page
--   $3  delay in ms
-- 51 is a page of 50 and one product more, which says that there is a next page. It is a constant so that
-- the plan made for every category knows how little is asked for.
--
-- The page's condition is written as a range over (category_id, id) and not as category_id = c.id. Both mean
-- the same, but with "=" the planner reckons with a category of average size, reads all of it by a bitmap and
-- sorts it: right for most categories, and for the largest one the whole category on every page. A range it
-- takes for long, so it walks the index in order and stops after 51 rows, in every plan.
--
-- About the delay see load_product.sql.
/* load category */
WITH delay AS MATERIALIZED (
    SELECT CASE WHEN $3::integer > 0 THEN pg_catalog.pg_sleep($3::integer / 1000.0) END
)
SELECT c.id, c.name, c.level,
       middle.id AS parent_id, middle.name AS parent_name,
       root.id AS grandparent_id, root.name AS grandparent_name,
       part.role, part.id AS part_id, part.name AS part_name, part.sku, part.price_cents, part.stock
  FROM delay
  LEFT JOIN categories AS c ON c.id = $1::bigint
  LEFT JOIN categories AS middle ON middle.id = c.parent_id
  LEFT JOIN categories AS root ON root.id = middle.parent_id
  LEFT JOIN LATERAL (
        SELECT 'child' AS role, child.id, child.name, NULL AS sku, NULL::bigint AS price_cents,
               NULL::integer AS stock
          FROM categories AS child
         WHERE child.parent_id = c.id
        UNION ALL
        (SELECT 'product', p.id, p.name, p.sku, p.price_cents, p.stock
           FROM products AS p
          WHERE (p.category_id, p.id) > (c.id, $2::bigint) AND p.category_id <= c.id
          ORDER BY p.category_id, p.id
          LIMIT 51)
       ) AS part ON true
 ORDER BY part.role, part.id
