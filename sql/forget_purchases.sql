-- Forgets the keys of purchases made more than a day ago, a thousand at a time.
/* forget purchases */
DELETE FROM purchases
 WHERE key IN (SELECT key FROM purchases WHERE made_at < now() - interval '1 day' LIMIT 1000)
