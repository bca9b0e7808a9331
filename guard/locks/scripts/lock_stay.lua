-- lock_stay: some requests of one process still wait for a name. Which of them should ask now?
--
-- KEYS  held, queue, alive
-- ARGV  1 place_ms    2 channel    3 encoded name    4 their tokens, a newline behind each
--
-- Replies  a string, one character for each token: 1 it should ask: it has lost its place, is the first in line or fits
--   now    0 it stands, and that is all
--
-- One command for all that wait in one process and are not first: only asking costs a command of its own.
--
-- Why the first asks though it may not fit: who stood before it has died or left since it last asked, and only the refusal
-- of the first in line cuts what the holders have left after Redis's clock has stepped back.

local call = redis.call
local held, queue, alive = KEYS[1], KEYS[2], KEYS[3]
local place_ms = tonumber(ARGV[1])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include lock_common

-- How many of those that stand in front fit together now.
local function fitting(count)
  local taken
  for first = 0, count - 1, 50 do
    for i, member in ipairs(call('ZRANGE', queue, first, first + 49)) do
      taken = (taken or used(held, limit(member))) + units(member)
      if taken > limit(member) then return first + i - 1 end
    end
  end
  return count
end

local changed, mine, asks = purge(held, queue, alive), {}, {}
clamp(alive, place_ms)
local fit, stands = fitting(call('ZCARD', queue)), false
for token in string.gmatch(ARGV[4], '[^\n]+') do
  local rank = call('ZRANK', queue, token)
  if rank then
    call('ZADD', alive, now + place_ms, token)
    stands = true
  end
  asks[#asks + 1] = (not rank or rank == 0 or rank < fit) and '1' or '0'
  mine[token] = true
end
if stands then
  keep(queue, place_ms)
  keep(alive, place_ms)
end
if changed then tell(held, queue, mine, ARGV[2], ARGV[3]) end
return table.concat(asks)
