-- make_stale: an entry becomes stale, because its tags were expired.
--
-- KEYS  value
-- ARGV  1 filler     its first 36 bytes
--       2 head       the first 154 bytes of its envelope with the time at which it may be called born (tag_stale)
--       3 checksum   the last 16 bytes of that
--       4 bytes      its length, which stays
--       5 stale_ms   what is left of its stale time
--
-- Replies  1 it is stale    0 another value stands there, or none    -1 Redis refused to store
--
-- It gets no more time to live than it has. Both at once: with that birth alone it would be fresh.

local value_key = KEYS[1]

local old, ttl_ms = redis.pcall('GET', value_key), redis.call('PTTL', value_key)
if type(old) ~= 'string' or #old ~= tonumber(ARGV[4]) or string.sub(old, 1, 36) ~= ARGV[1] then return 0 end
local limit_ms = tonumber(ARGV[5])
if ttl_ms >= 0 then limit_ms = math.min(ttl_ms, limit_ms) end
if limit_ms < 1 then return 0 end
local stored = redis.pcall('SET', value_key, ARGV[2] .. string.sub(old, 155, -17) .. ARGV[3], 'PX', limit_ms)
if stored.err then return -1 end
return 1
