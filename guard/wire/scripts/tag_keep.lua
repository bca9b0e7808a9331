-- tag_keep: sees to it, before an entry with tags is stored, that each of its tags has an epoch that outlives it.
--
-- KEYS  clock, reign, then one to eight tags
-- ARGV  1 born          what the clock showed before the entry was loaded
--       2 max_value_ms  the longest that any entry lives
--
-- Replies  1 no tag was invalidated since: the entry is good    0 it is out of date already
--
-- A tag without an epoch may have been invalidated and evicted, so it gets the present clock, as if it were
-- invalidated now. So does a tag with an epoch of another era, under which no entry of this era could be good.

-- include tag_epoch
-- include tag_common

local born, max_value_ms = ARGV[1], ARGV[2]
local clock = clock_after(0)
if clock ~= last_clock then
  local stored = store_clock(clock, max_value_ms)
  if stored.err then return stored end
end

local is_good = 1
for i = 3, #KEYS do
  local epoch = read_clock(KEYS[i])
  if epoch and era(epoch) == era(clock) then
    redis.call('PEXPIRE', KEYS[i], max_value_ms)
  else
    epoch = clock
    redis.call('SET', KEYS[i], clock, 'PX', max_value_ms)
  end
  if era(epoch) ~= era(born) or count(epoch) > count(born) then is_good = 0 end
end
return is_good
