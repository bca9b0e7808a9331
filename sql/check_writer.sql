-- What a login lacks that the schema gives to catalog_writer: one row for each; no row if all is well.
/* check writer */
WITH want (relation, privilege, attributes) AS (
    VALUES ('products', 'UPDATE', ARRAY['name', 'description', 'price_cents', 'stock', 'category_id']),
           ('purchases', 'SELECT', ARRAY['key', 'product_id']),
           ('purchases', 'INSERT', ARRAY['key', 'product_id']),
           ('invalidations', 'SELECT', ARRAY['id', 'target', 'due_at', 'confirmed']),
           ('invalidations', 'UPDATE', ARRAY['due_at', 'confirmed']),
           ('caches', 'SELECT', ARRAY['id']), ('caches', 'INSERT', ARRAY['id']), ('caches', 'UPDATE', ARRAY['id'])
),
column_want AS (
    SELECT relation, privilege, unnest(attributes) AS attribute FROM want
),
table_want (relation) AS (
    VALUES ('purchases'), ('invalidations'), ('caches')
)
SELECT DISTINCT privilege || ' on ' || relation AS missing
  FROM column_want
 WHERE to_regclass(relation) IS NOT NULL
   AND EXISTS (SELECT FROM pg_catalog.pg_attribute AS a
                WHERE a.attrelid = to_regclass(relation) AND a.attname = attribute AND NOT a.attisdropped)
   AND NOT has_column_privilege(to_regclass(relation), attribute, privilege)
 UNION
SELECT 'DELETE on ' || relation FROM table_want
 WHERE to_regclass(relation) IS NOT NULL AND NOT has_table_privilege(to_regclass(relation), 'DELETE')
 ORDER BY missing
