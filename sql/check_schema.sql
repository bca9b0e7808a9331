-- What this database lacks: one row per missing, mistyped or unreadable thing; no row if all is well. The outbox need
-- only be there: the loads have no right to read it.
/* check schema */
WITH want (relation, attribute, type) AS (
    VALUES ('categories', 'id', 'bigint'), ('categories', 'level', 'smallint'),
           ('categories', 'parent_id', 'bigint'), ('categories', 'name', 'text'), ('categories', 'stamp', 'uuid'),
           ('products', 'id', 'bigint'), ('products', 'category_id', 'bigint'), ('products', 'sku', 'text'),
           ('products', 'name', 'text'), ('products', 'description', 'text'),
           ('products', 'price_cents', 'bigint'), ('products', 'stock', 'integer'),
           ('products', 'edition', 'bigint'), ('products', 'updated_at', 'timestamp with time zone'),
           ('products', 'stamp', 'uuid'),
           ('offers', 'id', 'bigint'), ('offers', 'product_id', 'bigint'), ('offers', 'client_id', 'bigint'),
           ('offers', 'price_cents', 'bigint'), ('offers', 'valid_from', 'timestamp with time zone'),
           ('offers', 'valid_until', 'timestamp with time zone'),
           ('clients', 'id', 'bigint'), ('clients', 'name', 'text'), ('clients', 'token_sha256', 'text'),
           -- writers need these
           ('caches', 'id', 'uuid'), ('invalidations', 'id', 'bigint'), ('invalidations', 'target', 'text'),
           ('invalidations', 'confirmed', 'uuid[]')
)
SELECT DISTINCT
       CASE WHEN to_regclass(relation) IS NULL THEN 'table ' || relation
            WHEN a.attname IS NULL THEN 'column ' || relation || '.' || attribute
            WHEN format_type(a.atttypid, NULL) <> type
                THEN 'column ' || relation || '.' || attribute || ' of type ' || type
            ELSE 'privilege to read ' || relation
       END AS missing
  FROM want
  LEFT JOIN pg_catalog.pg_attribute AS a
         ON a.attrelid = to_regclass(relation) AND a.attname = attribute AND a.attnum > 0
            AND NOT a.attisdropped
 WHERE a.attname IS NULL
    OR format_type(a.atttypid, NULL) <> type
    OR (relation NOT IN ('caches', 'invalidations') AND NOT has_column_privilege(a.attrelid, a.attnum, 'SELECT'))
 ORDER BY missing
