-- Those of these transactions that still owe something. One row each; or one for each cache among their creditors
-- that has missed three beats, id, label and for how many ms it has been silent: nobody waits for those.
--   $1  transaction ids, bigint[]
/* unpaid transactions */
SELECT DISTINCT i.transaction_id, silent.id, silent.label,
       (extract(epoch FROM clock_timestamp() - silent.seen_at) * 1000)::bigint AS silent_ms
  FROM invalidations AS i
  LEFT JOIN caches AS silent ON silent.id <> ALL (i.confirmed)
                            AND silent.seen_at < clock_timestamp() - 3 * silent.beat_ms * interval '1 ms'
 WHERE i.transaction_id = ANY ($1::bigint[])
