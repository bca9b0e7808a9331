-- fill: stores a loaded value if the lease of its load still stands, and gives the lease back.
--
-- KEYS  value, lease, failure, waiting
-- ARGV  1 token    2 envelope    3 px (ms)    4 channel    5 message
--       6 push_bytes   an envelope up to this long follows the message, after a space, if another process
--                      waits for this lease
--
-- Replies
--    1  stored, lease gone, waiters told
--    2  stored already, by an earlier attempt of the caller's whose reply was lost
--    0  the lease is lost; nothing changed
--   -1  Redis refused to store (no memory); lease gone, waiters told
--
-- Why 2: the envelope begins with the UUID of the token, 36 bytes. Without it a repeated fill would take
-- its own success for a lost lease and its value for one that must not be shown.
--
-- Why the store may fail alone: a lease left behind would keep all processes waiting for a value that never
-- comes. The store precedes the deletions because Redis no longer refuses memory to a script that has
-- already written something.
--
-- Why only if another process waits: every process of the namespace hears every message.

local value_key, lease_key, failure_key, waiting_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, message = ARGV[1], ARGV[5]

if redis.pcall('GET', lease_key) ~= token then
  local uuid = string.sub(token, 1, 36)
  if #uuid ~= 36 or redis.pcall('GETRANGE', value_key, 0, 35) ~= uuid then return 0 end
  local fence = redis.pcall('ZREM', failure_key, '') -- as in acquire: only the master may say so
  if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then return fence end
  return 2
end

local stored = redis.pcall('SET', value_key, ARGV[2], 'PX', ARGV[3])
local awaited = redis.pcall('GET', waiting_key) == string.sub(token, 38, 53)
if awaited and not stored.err and #ARGV[2] <= tonumber(ARGV[6]) then message = message .. ' ' .. ARGV[2] end
redis.call('DEL', lease_key, failure_key, waiting_key)
redis.pcall('PUBLISH', ARGV[4], message) -- a hint: waiters also poll
if stored.err then return -1 end
return 1
