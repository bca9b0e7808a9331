-- One product and the path to its category: one row, with a NULL id if it is absent.
--   $1  product id
--   $3  delay in ms: PostgreSQL sleeps this long inside the statement, to make a stampede visible; 0: does
--       not call pg_sleep at all
--   $2  version that is known already; 0: none. If the row still has it, only id and version come back, the
--       rest is NULL: whoever asked has it
--
-- The delay happens exactly once, whatever plan is chosen and whether or not the row exists: a materialized
-- CTE is never merged into the rest nor run twice, and as the preserved side of every outer join it is
-- always read.
--
-- The statement's snapshot is taken before the delay begins. So a row changed during the delay is still
-- answered as it was before: the slow load that finishes with an old row, which is what a cache has to
-- survive.
/* load product */
WITH delay AS MATERIALIZED (
    SELECT CASE WHEN $3::integer > 0 THEN pg_catalog.pg_sleep($3::integer / 1000.0) END
)
SELECT p.id, d.sku, d.name, d.description, d.price_cents, d.stock, p.version,
       to_char(d.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at,
       leaf.id AS category_id, leaf.name AS category_name,
       middle.id AS parent_id, middle.name AS parent_name,
       root.id AS grandparent_id, root.name AS grandparent_name
  FROM delay
  LEFT JOIN products AS p ON p.id = $1::bigint
  LEFT JOIN LATERAL (SELECT p.* WHERE p.version <> $2::bigint) AS d ON true
  LEFT JOIN categories AS leaf ON leaf.id = d.category_id
  LEFT JOIN categories AS middle ON middle.id = leaf.parent_id
  LEFT JOIN categories AS root ON root.id = middle.parent_id
