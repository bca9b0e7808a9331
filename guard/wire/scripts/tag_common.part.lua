-- tag_common: the clock of the tags, which never shows a number twice and goes with the time.
--
-- A master that takes over may lack the last steps of the clock, while an entry that was born after them lives on, on
-- another node of a Cluster; and the old master may go on for a while, and so may births by its clock. If the new one
-- counted from where it is, such an entry would outlive the invalidations that it confirms. So each step goes one
-- beyond the milliseconds since 2026, or one beyond where the clock stands if that is later: what was born by
-- whatever clock before an invalidation has a lower number, unless it came in the same millisecond, or lost steps had
-- run ahead of the time. No lesser rule will do for an old master that goes on, because its clock may leap, too, and
-- later.
--
-- That takes masters whose times agree. The clock stands beside the name of the reign under which it was last asked,
-- the server's master_replid, and under another it leaps: it goes to the time whatever asks. Where it is there
-- already, the time of this master is behind that of the one before, or there were more steps than milliseconds:
-- another era begins, as for a clock that is lost. What remains is a time behind steps that were lost, and not behind
-- the last one that was not.
--
-- A login that may not ask for the reign (INFO) has no leaps; all else holds. The server is asked for it, so no
-- client's view of who is the master takes part. 12 digits last for 31 years; then, too, another era begins.

local clock_key, reign_key = KEYS[1], KEYS[2]

local last_clock = read_clock(clock_key)
local info = redis.pcall('INFO', 'replication')
local reign = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
local leaps = reign and redis.pcall('GET', reign_key) ~= reign

-- What the clock shows after so many steps; the first of a new era if there is none.
local function clock_after(steps)
  if last_clock and not leaps and steps == 0 then return last_clock end
  local time = redis.call('TIME')
  local now_ms = (time[1] - 1767225600) * 1000 + math.floor(time[2] / 1000)
  local last = last_clock and count(last_clock)
  local to = last and math.max(last, now_ms)
  if to and not (leaps and to == last) and to + steps < 1e12 then
    return era(last_clock) .. '.' .. string.format('%012.0f', to + steps)
  end
  return string.format('%016.0f.%012.0f', time[1] * 1000000 + time[2], 1)
end

-- Without memory there is no clock: the next one is of another era.
local function store_clock(clock, max_value_ms)
  local stored = redis.pcall('SET', clock_key, clock, 'PX', max_value_ms)
  if stored.err then redis.call('DEL', clock_key)
  elseif reign then redis.call('SET', reign_key, reign, 'PX', max_value_ms) end
  return stored
end
