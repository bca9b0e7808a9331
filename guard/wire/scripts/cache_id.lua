-- cache_id: which cache this is. The first process that asks an empty one names it.
--
-- KEYS  identity
-- ARGV  1 a name for it, if it has none: 36 bytes    2 max_value_ms
--
-- Replies  its name
--
-- The name lives beside the entries: it is replicated with them and lost with them. It is kept for as long as an
-- entry may live, counted from the last time that a process asked.

local id = redis.pcall('GET', KEYS[1])
if type(id) ~= 'string' or #id ~= 36 then id = nil end
if id and redis.call('PEXPIRE', KEYS[1], ARGV[2]) == 1 then return id end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
