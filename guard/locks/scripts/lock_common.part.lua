-- lock_common: what lock_acquire, lock_release and lock_stay have in common. embed.sh puts it where they say so. The
-- script has set `call`, redis.call, and `now`, ms of Redis's clock.
--
-- A member of held, queue and alive is the token of a request, which says all about it: "<uuid, 36> <units, 7 digits>
-- <limit, 7 digits> <lease_ms, 8 digits>", then a space and text for people.
--
-- held   zset token -> the instant at which its lease ends, ms of Redis's clock
-- queue  zset token -> order of arrival
-- alive  zset token -> the instant at which its place in the queue ends

local function units(member) return tonumber(member:sub(38, 44)) end
local function limit(member) return tonumber(member:sub(46, 52)) end
local function lease(member) return tonumber(member:sub(54, 61)) end

-- A key with a TTL: never a shorter one than what lives longest in it needs.
local function keep(key, ms)
  if call('PTTL', key) < ms + 1000 then call('PEXPIRE', key, ms + 1000) end
end

-- Drops what has run out; true if there was any. It is the first to write, and so lets the rest of a script work
-- without memory: Redis no longer refuses it to one that has written. Where one of queue and alive was evicted the
-- other goes, too: those that wait ask again.
local function purge(held, queue, alive)
  local dropped = call('ZREMRANGEBYSCORE', held, '-inf', now)
  if call('ZCARD', queue) ~= call('ZCARD', alive) then call('DEL', queue, alive) end
  for _, dead in ipairs(call('ZRANGEBYSCORE', alive, '-inf', now)) do
    dropped = dropped + call('ZREM', queue, dead) + call('ZREM', alive, dead)
  end
  return dropped > 0
end

-- Nothing lasts longer than it possibly can, its own lease or `ms`: the clock may have stepped back.
local function clamp(key, ms)
  local all = call('ZRANGEBYSCORE', key, '(' .. now + (ms or 0), '+inf', 'WITHSCORES')
  for i = 1, #all, 2 do
    local latest = now + (ms or lease(all[i]))
    if all[i + 1] - latest > 0 then call('ZADD', key, latest, all[i]) end
  end
end

-- The units of the first so many members; once they are more than `most`, any number that is, too.
local function sum(key, count, most)
  local total = 0
  for first = 0, count - 1, 50 do
    for _, member in ipairs(call('ZRANGE', key, first, math.min(first + 50, count) - 1)) do
      total = total + units(member)
    end
    if total > most then return total end
  end
  return total
end

-- The units that are held. Beside an exclusive hold, 1000000 of 1000000, there is none, and readers have one each.
local function used(held, of)
  local count = call('ZCARD', held)
  return count > 1 and of == 1e6 and count or sum(held, count, of)
end

-- Tells, in the order of the queue, those that fit now, but for `mine`; if they are more than 16, everybody.
local function tell(held, queue, mine, channel, name)
  local taken
  for i, member in ipairs(call('ZRANGE', queue, 0, 16)) do
    taken = (taken or used(held, limit(member))) + units(member)
    if taken > limit(member) then return end
    local whom = i > 16 and '*' or member:sub(1, 36)
    if i > 16 or not mine[member] then redis.pcall('PUBLISH', channel, 'k ' .. whom .. ' ' .. name) end
  end
end
