-- touch: gives a new life to a value that its refresh found unchanged, if the lease still stands, and gives the
-- lease back. The body does not travel again.
--
-- KEYS  value, lease, failure, waiting
-- ARGV  1 token
--       2 filler     the first 36 bytes of the unchanged value
--       3 head       the first 154 bytes of its new envelope (new filler, TTLs, life, load time, born)
--       4 checksum   its last 16 bytes
--       5 bytes      its length, which is that of the old one
--       6 px (ms)    7 channel    8 message    9 push_bytes, as in fill
--
-- Replies  as fill: 1 stored, 2 stored already by the caller, 0 the lease is lost, -1 Redis refused to store; and
--   -2  another value stands there, or none; nothing changed, the caller still has the lease and must fill
--
-- Why the filler: the source was compared with that very value. Under the lease no other process can have stored
-- another one, but it may have run out, been evicted or been damaged.

local value_key, lease_key, failure_key, waiting_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, message = ARGV[1], ARGV[8]

if redis.pcall('GET', lease_key) ~= token then
  local uuid = string.sub(token, 1, 36)
  if #uuid ~= 36 or redis.pcall('GETRANGE', value_key, 0, 35) ~= uuid then return 0 end
  local fence = redis.pcall('ZREM', failure_key, '') -- as in acquire: only the master may say so
  if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then return fence end
  return 2
end

local old = redis.pcall('GET', value_key)
if type(old) ~= 'string' or #old ~= tonumber(ARGV[5]) or string.sub(old, 1, 36) ~= ARGV[2] then return -2 end

local new = ARGV[3] .. string.sub(old, 155, -17) .. ARGV[4]
local stored = redis.pcall('SET', value_key, new, 'PX', ARGV[6])
local awaited = redis.pcall('GET', waiting_key) == string.sub(token, 38, 53)
if awaited and not stored.err and #new <= tonumber(ARGV[9]) then message = message .. ' ' .. new end
redis.call('DEL', lease_key, failure_key, waiting_key)
redis.pcall('PUBLISH', ARGV[7], message) -- a hint: waiters also poll
if stored.err then return -1 end
return 1
