-- fill: stores a loaded value if the lease it was loaded under still stands, and gives the lease back.
--
-- KEYS  value, lease, failure
-- ARGV  1 token    2 envelope    3 px (ms)    4 channel    5 message
--
-- Replies
--    1  stored, lease gone, waiters told
--    2  stored already, by me: the reply to an earlier attempt was lost
--    0  the lease is lost; nothing changed
--   -1  Redis refused to store (no memory); lease gone, waiters told
--
-- Why 2: the envelope begins with the UUID of the token, 36 bytes. Without it a repeated fill would take
-- its own success for a lost lease and its value for one that must not be shown.
--
-- Why the store may fail alone: a lease left behind would keep everyone waiting for a value that will never
-- be there. It comes before the deletions because Redis no longer refuses memory to a script that has
-- already written something.

local value_key, lease_key, failure_key = KEYS[1], KEYS[2], KEYS[3]
local token = ARGV[1]

if redis.pcall('GET', lease_key) ~= token then
  local uuid = string.sub(token, 1, 36)
  if #uuid == 36 and redis.pcall('GETRANGE', value_key, 0, 35) == uuid then return 2 end
  return 0
end

local stored = redis.pcall('SET', value_key, ARGV[2], 'PX', ARGV[3])
redis.call('DEL', lease_key, failure_key)
redis.pcall('PUBLISH', ARGV[4], ARGV[5]) -- a hint: waiters also poll
if stored.err then return -1 end
return 1
