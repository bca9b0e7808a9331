-- tag_keep: sees to it, before an entry with tags is stored, that each of its tags has an epoch that outlives it.
--
-- KEYS  clock, then one to eight tags
-- ARGV  1 born          what the clock showed before the entry was loaded
--       2 max_value_ms  the longest that any entry lives
--
-- Replies  1 no tag was invalidated since: the entry is good    0 it is out of date already
--
-- A tag without an epoch may have been invalidated and evicted, so it gets the present clock, as if it were
-- invalidated now. So does a tag with an epoch of another era, under which no entry of this era could be good.

local clock_key = KEYS[1]
local born, max_value_ms = ARGV[1], ARGV[2]

local function get(key)
  local clock = redis.pcall('GET', key)
  if type(clock) == 'string' and #clock == 29 and string.find(clock, '^%d+%.%d+$') then return clock end
end

local function era(clock) return string.sub(clock, 1, 16) end
local function count(clock) return tonumber(string.sub(clock, 18)) end

local clock = get(clock_key)
if not clock then
  local time = redis.call('TIME')
  clock = string.format('%016.0f.%012.0f', time[1] * 1000000 + time[2], 1)
  redis.call('SET', clock_key, clock, 'PX', max_value_ms)
end

local is_good = 1
for i = 2, #KEYS do
  local epoch = get(KEYS[i])
  if epoch and era(epoch) == era(clock) then
    redis.call('PEXPIRE', KEYS[i], max_value_ms)
  else
    epoch = clock
    redis.call('SET', KEYS[i], clock, 'PX', max_value_ms)
  end
  if era(epoch) ~= era(born) or count(epoch) > count(born) then is_good = 0 end
end
return is_good
