-- invalidate: the cached value is out of date, and so is what a running load has read.
--
-- KEYS  value, lease, failure, waiting
-- ARGV  1 channel    2 message
--       3 mode       h  hard: the value goes
--                    s  soft: it becomes stale now, for at most stale_ms and its own stale time
--       4 stale_ms   soft only
--
-- Replies  bit 0 (1)  there was a value
--          bit 1 (2)  a load was running; what it read will not be stored
--
-- Why the lease goes too: its load may have read the row before the change. Without the lease its fill is
-- refused, and the next request loads again. The change may have cured the failure, so it goes as well.
--
-- What makes it stale is its TTL: where Redis's clock steps back it may be fresh again for as long.
--
-- A value without stale time (an absent entry, or one that is not the guard's) goes in either mode.

local value_key, lease_key, failure_key, waiting_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- How long the value may live on as stale: its bytes 52-64, see acquire.
local function stale_limit()
  local field = redis.pcall('GETRANGE', value_key, 51, 63)
  if type(field) ~= 'string' or #field ~= 13 or string.find(field, '%D') then return 0 end
  return math.min(tonumber(field), tonumber(ARGV[4]))
end

local function make_stale()
  local ttl_ms, limit_ms = redis.call('PTTL', value_key), stale_limit()
  if ttl_ms == -2 then return 0 end
  if limit_ms < 1 then return redis.call('DEL', value_key) end
  if ttl_ms == -1 or ttl_ms > limit_ms then redis.call('PEXPIRE', value_key, limit_ms) end
  return 1
end

local result
if ARGV[3] == 's' then
  result = make_stale()
else
  result = redis.call('DEL', value_key)
end
result = result + 2 * redis.call('DEL', lease_key)
redis.call('DEL', failure_key, waiting_key)
redis.pcall('PUBLISH', ARGV[1], ARGV[2]) -- a hint: waiters also poll
return result
