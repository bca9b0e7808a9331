-- lock_release: gives back what this token has, holds or places in the queue, and tells those that fit now.
--
-- KEYS  gone, then held, queue and alive of each name
-- ARGV  1 token
--       2 doubt_ms   an acquire of it may still come: it is refused for so long    0: none can
--       3 channel    4... encoded names
--
-- Replies  1 it was held, in all names    0 it was not
--
-- A hold whose lease is over but that nobody has dropped has never been anybody else's: it was held. Where nobody
-- waits there is nobody to tell, and what else has run out is left for the next acquire.

local call = redis.call
local token, doubt_ms = ARGV[1], tonumber(ARGV[2])
local names = (#KEYS - 1) / 3

local function keys(i) return unpack(KEYS, 3 * i - 1, 3 * i + 1) end

local given, waiting = 1, 0
for i = 1, names do
  local held, queue, alive = keys(i)
  given = math.min(given, call('ZREM', held, token))
  waiting = waiting + call('EXISTS', queue, alive)
end
if doubt_ms == 0 and waiting == 0 then return given end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include lock_common

if doubt_ms > 0 then
  local gone = KEYS[1]
  call('ZREMRANGEBYSCORE', gone, '-inf', now)
  call('ZADD', gone, now + doubt_ms, token)
  keep(gone, doubt_ms)
end
for i = 1, names do
  local held, queue, alive = keys(i)
  if call('EXISTS', queue, alive) > 0 then
    purge(held, queue, alive)
    if call('ZREM', queue, token) == 1 then call('ZREM', alive, token) end
    tell(held, queue, {[token] = true}, ARGV[3], ARGV[3 + i])
  end
end
return given
