-- The offers for one product that stand, as one client may see them: those for everybody and its own. One row each,
-- the cheapest first; one row with a NULL id if there is none.
--   $1  product id
--   $2  the client's token; '': none
--   $3  delay in ms, once, as in load_product.sql
--
-- is_personal: some client has an offer of its own that stands, so what one client sees is not for the others. Only
-- then a client is named. left_ms: until the next offer begins or ends, for anybody; at most a day. The database's
-- clock alone decides what stands, and the statement's beginning is its time.
/* load offers */
WITH delay AS MATERIALIZED (
    SELECT CASE WHEN $3::integer > 0 THEN pg_catalog.pg_sleep($3::integer / 1000.0) END
),
     known AS MATERIALIZED (
    SELECT id, client_id, price_cents, valid_until, valid_from <= now() AS stands,
           CASE WHEN valid_from <= now() THEN valid_until ELSE valid_from END AS changes_at
      FROM offers
     WHERE product_id = $1::bigint AND valid_until > now()
),
     about AS (
    SELECT coalesce(bool_or(client_id IS NOT NULL) FILTER (WHERE stands), false) AS is_personal,
           floor(extract(epoch FROM least(min(changes_at), now() + interval '1 day') - now()) * 1000)::bigint AS left_ms
      FROM known
)
SELECT about.is_personal, about.left_ms, asker.name AS client, o.id, o.price_cents,
       to_char(o.valid_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS valid_until,
       o.client_id IS NOT NULL AS is_own
  FROM delay
 CROSS JOIN about
  LEFT JOIN clients AS asker
         ON about.is_personal AND asker.token_sha256 = encode(sha256(convert_to($2::text, 'UTF8')), 'hex')
  LEFT JOIN known AS o ON o.stands AND (o.client_id IS NULL OR o.client_id = asker.id)
 ORDER BY o.price_cents, o.id
