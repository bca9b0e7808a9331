-- release: gives the lease back without a value; after a failed load it leaves the failure lease.
--
-- KEYS  lease, failure, waiting
-- ARGV  1 token    2 channel    3 message    4 code of the failure or ""    5 failure_ms (unless 4 is "")
--       6 shared     an entry that is not stored, or "": follows the message, after a space, if another process waits
--                    for this lease, whether it wants pushes or not
--       7 abandoned_ms   optional: the load was abandoned; for so long the next lease of the key says so
--
-- Replies  1 released, waiters told    0 lost; nothing changed
--
-- The failure lease holds "<failure_ms, 10 digits> <code>"; the code says why, and behind a space which load it was
-- (16 hex digits), and is any text here. Its own TTL is in it so that acquire can tell one that
-- has grown too long. It keeps the waiters of all processes from trying the failed load again, one after the other.
--
-- Why the mark of an abandoned load stands in the place of the waiting mark: one needs a lease, the other none.
-- Why here: what was loaded under a lease that an invalidation has voided may be older than those that wait may have.
--
-- Why compare and delete: a plain DEL by a process that was paused past its lease would free the lease of
-- the one that came after it.

local lease_key, failure_key, waiting_key = KEYS[1], KEYS[2], KEYS[3]
local token, message, code, shared = ARGV[1], ARGV[3], ARGV[4], ARGV[6] or ''

if redis.pcall('GET', lease_key) ~= token then return 0 end
if shared ~= '' then
  local waiting = redis.pcall('GET', waiting_key)
  local awaited = type(waiting) == 'string' and string.sub(waiting, 1, 16) == string.sub(token, 38, 53)
  if awaited then message = message .. ' ' .. shared end
end
redis.call('DEL', lease_key, waiting_key)
if code ~= '' then
  local failure_ms = tonumber(ARGV[5])
  redis.pcall('SET', failure_key, string.format('%010d %s', failure_ms, code), 'PX', failure_ms)
end
if ARGV[7] then redis.pcall('SET', waiting_key, 'abandoned', 'PX', ARGV[7]) end
redis.pcall('PUBLISH', ARGV[2], message) -- a hint: waiters also poll
return 1
