-- Says that a cache is in use. One row: whether it is new; how many are registered, without it if it is new.
--   $1  its id, uuid
--   $2  its label, for people
--   $3  it is said again within this many ms
--   $4  this many ms after the last time nothing that was loaded before is left in it
-- Processes of one cache may have settings of their own: the longest times count.
/* beat cache */
INSERT INTO caches AS c (id, label, beat_ms, silence_ms)
VALUES ($1::uuid, $2::text, $3::bigint, $4::bigint)
    ON CONFLICT (id) DO UPDATE
   SET label = excluded.label, beat_ms = greatest(c.beat_ms, excluded.beat_ms),
       silence_ms = greatest(c.silence_ms, excluded.silence_ms), seen_at = clock_timestamp(), doubted_at = NULL
RETURNING xmax = 0 AS is_new, (SELECT count(*) FROM caches) AS cache_count
