-- One product and the path to its category: one row, with a NULL id if it is absent.
--   $1  product id
--   $2  validator that is known already; '': none. If the document still has it, only id and validator come back,
--       the rest is NULL: the cache has it
--   $3  delay in ms: PostgreSQL sleeps this long inside the statement, to make a stampede visible; 0: does
--       not call pg_sleep at all
--
-- The delay happens exactly once, whatever plan is chosen and whether or not the row exists: a materialized
-- CTE is never merged into the rest nor run twice, and as the preserved side of every outer join it is
-- always read.
--
-- The statement's snapshot is taken before the delay begins. So a row changed during the delay is still
-- answered as it was before: the slow load that finishes with an old row, which is what a cache has to
-- survive. The validator is made of the same snapshot's rows as the document.
/* load product */
WITH delay AS MATERIALIZED (
    SELECT CASE WHEN $3::integer > 0 THEN pg_catalog.pg_sleep($3::integer / 1000.0) END
)
SELECT p.id, d.sku, d.name, d.description, d.price_cents, d.stock, d.edition AS version,
       to_char(d.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at,
       d.leaf_id AS category_id, d.leaf_name AS category_name,
       d.middle_id AS parent_id, d.middle_name AS parent_name,
       d.root_id AS grandparent_id, d.root_name AS grandparent_name,
       v.validator
  FROM delay
  LEFT JOIN products AS p ON p.id = $1::bigint
  LEFT JOIN categories AS leaf ON leaf.id = p.category_id
  LEFT JOIN categories AS middle ON middle.id = leaf.parent_id
  LEFT JOIN categories AS root ON root.id = middle.parent_id
  LEFT JOIN LATERAL (
        SELECT product_validator(p.edition, p.stamp, leaf.stamp, middle.stamp, root.stamp) AS validator
       ) AS v ON true
  LEFT JOIN LATERAL (
        SELECT p.*, leaf.id AS leaf_id, leaf.name AS leaf_name, middle.id AS middle_id, middle.name AS middle_name,
               root.id AS root_id, root.name AS root_name
         WHERE v.validator <> $2::text
       ) AS d ON true
