-- latch: counts the parties that are here; opens when enough are, and stays open.
--
-- KEYS  gone, here
-- ARGV  1 token       of a party, or "": only looks
--       2 parties
--       3 doing       c  it is here: counts for its lease, from each time that it says so
--                     l  it leaves
--       4 doubt_ms    l: it may still be said to be here: that is refused for so long    0: it cannot
--       5 keep_ms     kept for so long after the last word
--       6 channel     7 encoded name
--
-- Replies
--    0   open
--    n   so many are missing
--   -1   c: this token has left before
--
-- here   zset token -> the instant until which it counts, ms of Redis's clock; a member "open" once enough were here
-- gone   as in lock_acquire
--
-- Why a party counts for its lease only: the dead must not open a latch. Saying it twice counts once. Clamps as in
-- lock_acquire: Redis's clock may step back.

local call = redis.call
local gone, here = KEYS[1], KEYS[2]
local token, counts, doubt_ms, keep_ms = ARGV[1], ARGV[3] == 'c', tonumber(ARGV[4]), tonumber(ARGV[5])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function latest(member) return now + tonumber(member:sub(54, 61)) end

call('ZREMRANGEBYSCORE', gone, '-inf', now) -- being a write, it also lets the rest work without memory
if doubt_ms > 0 then
  call('ZADD', gone, now + doubt_ms, token)
  if call('PTTL', gone) < doubt_ms + 1000 then call('PEXPIRE', gone, doubt_ms + 1000) end
end
if counts and call('ZSCORE', gone, token) then return -1 end

local missing = 0
if not call('ZSCORE', here, 'open') then
  call('ZREMRANGEBYSCORE', here, '-inf', now)
  local all = call('ZRANGEBYSCORE', here, '(' .. now, '+inf', 'WITHSCORES')
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) > latest(all[i]) then call('ZADD', here, latest(all[i]), all[i]) end
  end
  if token ~= '' and not counts then call('ZREM', here, token) end
  if token ~= '' and counts then call('ZADD', here, latest(token), token) end
  missing = math.max(0, tonumber(ARGV[2]) - call('ZCARD', here))
  if missing == 0 then
    call('ZADD', here, '+inf', 'open')
    redis.pcall('PUBLISH', ARGV[6], 'k * ' .. ARGV[7]) -- a hint: those that wait also poll
  end
end
call('PEXPIRE', here, keep_ms)
return missing
