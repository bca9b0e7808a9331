-- lock_acquire: takes all of n names at once, or a place in the queue of each.
--
-- KEYS  gone, then held, queue and alive of each name, then fence of each
-- ARGV  1 token       sent again unfreed while its fate is open: the grant is the same, with a higher number
--       2 place_ms    a place in the queue is kept for so long after its process last said that it waits, by this or
--                     by
--                     lock_stay    0: no place is wanted
--       3 order       f behind all that wait    o past them
--       4 fence_ms    an idle name's number is kept for so long
--       5 channel     6... encoded names
--
-- Replies
--   {1, fence, ...}    granted, with the fencing number of each name
--   {0, ms, before}    refused: so many stand in front, and in ms the first hold or place runs out, which may change
--                      it
--   {-1}               this token was given back before
--
-- The rule: what others hold, what stands in front in the queue and what is asked for fit into the limit.
--
-- gone   zset token -> the instant at which the tombstone of a token that was given back in doubt goes
-- fence  the last fencing number: max(last + 1, Redis's clock in us), which survives a lost key or a clock set back
--
-- Why the short way: most names are free. If nothing of them is there, there is nothing to drop, to queue behind or
-- to tell, and the long way would come to the same in half as much time again. Without memory the first write of the
-- short way is refused, that of the long way is not.
--
-- Why all queues at one moment: any two requests stand in the same order wherever they meet, so no circle can close.
-- A request that has lost its place in one name queues anew in all.
--
-- Why a hold's end is a hint for all: what stands in front may be dead, and then nothing else asks when the hold
-- ends.
--
-- Why clamps: Redis's clock may step back. A dead holder blocks for its lease, counted from the next refusal of the
-- first in line, a dead waiter for place_ms from the next refusal of one behind it. Not every refusal cuts both:
-- beside many readers that would be most of what it costs.

local call = redis.call
local token, place_ms = ARGV[1], tonumber(ARGV[2])
local names = (#KEYS - 1) / 4
local time = call('TIME')
local now_us = time[1] * 1e6 + time[2]
local now = math.floor(now_us / 1000)
local lease_ms = tonumber(token:sub(54, 61))
local reply = {1}

local function keys(i) return unpack(KEYS, 3 * i - 1, 3 * i + 1) end

local function raise(i)
  local fence = KEYS[1 + 3 * names + i]
  local number = math.max((tonumber(redis.pcall('GET', fence)) or 0) + 1, now_us)
  call('SET', fence, number, 'PX', ARGV[4])
  reply[1 + i] = number
end

if call('EXISTS', unpack(KEYS, 1, 1 + 3 * names)) == 0
   and tonumber(redis.pcall('ZADD', KEYS[2], now + lease_ms, token)) then
  for i = 1, names do
    local held = keys(i)
    if i > 1 then call('ZADD', held, now + lease_ms, token) end
    call('PEXPIRE', held, lease_ms + 1000)
    raise(i)
  end
  return reply
end
if call('ZSCORE', KEYS[1], token) then return {-1} end

-- include lock_common

local fits, queued, freed, most = true, true, {}, 0
local hint = place_ms > 0 and place_ms or lease_ms
for i = 1, names do
  local held, queue, alive = keys(i)
  freed[i] = purge(held, queue, alive)
  local rank = call('ZRANK', queue, token)
  local before, room = rank or call('ZCARD', queue), limit(token) - units(token) - used(held, limit(token))
  local ahead = ARGV[3] == 'o' and 0 or before
  queued = queued and rank
  if (ahead > room or sum(queue, ahead, room) > room) and not call('ZSCORE', held, token) then
    if ahead == 0 then clamp(held) elseif place_ms > 0 then clamp(alive, place_ms) end
    fits, most = false, math.max(most, before)
    for _, key in ipairs({held, alive}) do
      hint = math.min(hint, (call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or now + hint) - now)
    end
  end
end

for i = 1, names do
  local held, queue, alive = keys(i)
  if fits or place_ms == 0 or not queued then
    freed[i] = call('ZREM', queue, token) + call('ZREM', alive, token) > 0 and not fits or freed[i]
  end
  if fits then
    call('ZADD', held, now + lease_ms, token)
    keep(held, lease_ms)
    raise(i)
  else
    freed[i] = call('ZREM', held, token) == 1 or freed[i] -- a part of what it asks for is of no use
    if place_ms > 0 then
      if not queued then
        call('ZADD', queue, (call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0) + 1, token)
      end
      call('ZADD', alive, now + place_ms, token)
      keep(queue, place_ms)
      keep(alive, place_ms)
    end
  end
  if freed[i] then tell(held, queue, {[token] = true}, ARGV[5], ARGV[5 + i]) end
end
return fits and reply or {0, hint, most}
