-- lock_look: who has a name, and who waits for it. For people; changes nothing.
--
-- KEYS  held, queue, alive, fence
-- ARGV  1 at most so many of either
--
-- Replies  {fence, holders, waiters, {token, left_ms, ...}, {token, ...}}: the last number, 0 if none is known; how
--   many there are; the first of them, with what is left of a lease

local call = redis.call
local held, queue, alive, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most = tonumber(ARGV[1])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local later = '(' .. now

local holders, waiters = {}, {}
for i, text in ipairs(call('ZRANGEBYSCORE', held, later, '+inf', 'WITHSCORES', 'LIMIT', 0, most)) do
  holders[i] = i % 2 == 1 and text or text - now
end
for _, token in ipairs(call('ZRANGE', queue, 0, most - 1)) do
  local ends = call('ZSCORE', alive, token)
  if ends and tonumber(ends) > now then waiters[#waiters + 1] = token end
end
local number = tonumber(redis.pcall('GET', fence)) or 0
return {number, call('ZCOUNT', held, later, '+inf'), call('ZCOUNT', alive, later, '+inf'), holders, waiters}
