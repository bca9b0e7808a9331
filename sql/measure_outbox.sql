-- How much is owed: rows, counted to 10 000; the age of the oldest in ms, 0 if there is none; and in how many
-- ms the next is due that a cache has not confirmed, NULL if there is none.
--   $1  the cache, uuid; NULL: not known
/* measure outbox */
SELECT (SELECT count(*) FROM (SELECT FROM invalidations LIMIT 10000) AS counted) AS row_count,
       coalesce((SELECT ceil(extract(epoch FROM clock_timestamp() - min(made_at)) * 1000)::bigint
                   FROM (SELECT made_at FROM invalidations ORDER BY id LIMIT 1) AS oldest), 0) AS oldest_ms,
       -- of none, greatest(0, NULL) would be 0
       (SELECT CASE WHEN min(due_at) IS NOT NULL
                    THEN greatest(0, ceil(extract(epoch FROM min(due_at) - clock_timestamp()) * 1000))::bigint END
          FROM invalidations
         WHERE $1::uuid <> ALL (confirmed)) AS next_ms
