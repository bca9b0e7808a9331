-- lock_stay: some requests of one process still wait for a name. Which of them should ask now?
--
-- KEYS  held, queue, alive
-- ARGV  1 place_ms    2 channel    3 encoded name    4 their tokens, a newline behind each
--
-- Replies  a string, one character for each token: 1 it should ask: it has lost its place, is the first in line or
--          fits
--   now    0 it stands, and that is all
--
-- One command for all that wait in one process and are not first: only asking costs a command of its own. In here,
-- too, CHUNK of them share one.
--
-- Why the first asks though it may not fit: what stood before it has died or left since it last asked, and only the
-- refusal of the first in line cuts what the holders have left after Redis's clock has stepped back.

local CHUNK = 50
local call = redis.call
local held, queue, alive = KEYS[1], KEYS[2], KEYS[3]
local place_ms = tonumber(ARGV[1])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include lock_common

-- Those that should ask: the first in line, and behind it those that fit together now.
local function askers()
  local set, taken = {}
  for first = 0, call('ZCARD', queue) - 1, CHUNK do
    for i, member in ipairs(call('ZRANGE', queue, first, first + CHUNK - 1)) do
      taken = (taken or used(held, limit(member))) + units(member)
      local fits = taken <= limit(member)
      set[member] = fits or first + i == 1
      if not fits then return set end
    end
  end
  return set
end

local changed, tokens, mine, asks = purge(held, queue, alive), {}, {}, {}
clamp(alive, place_ms)
local ask, stands = askers(), false
for token in string.gmatch(ARGV[4], '[^\n]+') do
  tokens[#tokens + 1] = token
  mine[token] = true
end
for first = 1, #tokens, CHUNK do
  local some = {unpack(tokens, first, math.min(first + CHUNK - 1, #tokens))}
  local places = {}
  for i, score in ipairs(call('ZMSCORE', queue, unpack(some))) do
    local token = some[i]
    if score then
      places[#places + 1] = now + place_ms
      places[#places + 1] = token
    end
    asks[#asks + 1] = (not score or ask[token]) and '1' or '0'
  end
  if #places > 0 then
    call('ZADD', alive, unpack(places))
    stands = true
  end
end
if stands then
  keep(queue, place_ms)
  keep(alive, place_ms)
end
if changed then tell(held, queue, mine, ARGV[2], ARGV[3]) end
return table.concat(asks)
