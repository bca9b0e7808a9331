-- tag_common: the clock of the tags, which never shows a number twice.
--
-- A master that takes over may lack the last steps of the clock, while an entry that was born after them lives on, on
-- another node of a Cluster. The numbers would come again, and that entry would outlive the invalidations that get them.
-- So the clock stands beside the name of the reign under which it was last asked, the server's master_replid, and leaps
-- where that is another. The server is asked for it, so no client's view of who is the master takes part.
--
-- A leap may be lost as well, with a second master that dies young or with a master that has just got its first replica
-- (which renames its reign). Two leaps from the same number must not meet, so each goes to the milliseconds since 2026 and
-- by no fixed span, and where the clock is there already another era begins, as for a clock that is lost. That holds
-- where the second leap comes later by the masters' clocks than the first, by a millisecond for each step that was lost.
-- 12 digits last for 31 years; then, too, another era begins.
--
-- A login that may not ask (INFO) has no leaps; all else holds.

local clock_key, reign_key = KEYS[1], KEYS[2]

local last_clock = read_clock(clock_key)
local info = redis.pcall('INFO', 'replication')
local reign = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
local leaps = reign and redis.pcall('GET', reign_key) ~= reign

-- What the clock shows after so many steps; the first of a new era if there is none.
local function clock_after(steps)
  if last_clock and not leaps and steps == 0 then return last_clock end
  local time = redis.call('TIME')
  local to = last_clock and count(last_clock)
  if to and leaps then
    local now_ms = (time[1] - 1767225600) * 1000 + math.floor(time[2] / 1000)
    to = now_ms > to and now_ms
  end
  if to and to + steps < 1e12 then return era(last_clock) .. '.' .. string.format('%012.0f', to + steps) end
  return string.format('%016.0f.%012.0f', time[1] * 1000000 + time[2], 1)
end

-- Without memory there is no clock: the next one is of another era.
local function store_clock(clock, max_value_ms)
  local stored = redis.pcall('SET', clock_key, clock, 'PX', max_value_ms)
  if stored.err then redis.call('DEL', clock_key)
  elseif reign then redis.call('SET', reign_key, reign, 'PX', max_value_ms) end
  return stored
end
