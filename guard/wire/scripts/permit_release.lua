-- permit_release: gives a permit back, or a place in the queue, and tells the processes that are next.
--
-- KEYS  permits, queue, alive
-- ARGV  1 token      or "": no permit, the caller no longer waits
--       2 waiter     3 limit     4 channel
--
-- Replies  1 it was out    0 it was not; or no token was given
--
-- The message is "p - <waiter>", one for each free permit and for the process that it names. The caller gets none: if
-- it wants another permit, it asks right after this.

local permits_key, queue_key, alive_key = KEYS[1], KEYS[2], KEYS[3]
local token, waiter = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now_ms)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', alive_key, '-inf', now_ms)) do
  redis.call('ZREM', queue_key, dead)
  redis.call('ZREM', alive_key, dead)
end

local given = 0
if token ~= '' then
  given = redis.call('ZREM', permits_key, token)
else
  redis.call('ZREM', queue_key, waiter)
  redis.call('ZREM', alive_key, waiter)
end

local free = tonumber(ARGV[3]) - redis.call('ZCARD', permits_key)
if free > 0 then
  for _, next in ipairs(redis.call('ZRANGE', queue_key, 0, free - 1)) do
    if next ~= waiter then redis.pcall('PUBLISH', ARGV[4], 'p - ' .. next) end -- a hint: waiters also poll
  end
end
return given
