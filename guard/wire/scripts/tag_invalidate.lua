-- tag_invalidate: every entry with this tag is out of date, and so is what a running load has read.
--
-- KEYS  clock, tag
-- ARGV  1 max_value_ms    2 channel    3 message
--
-- Replies  1 an entry may have had this tag    0 none had
--
-- The clock moves on and the tag's epoch becomes what it shows: every entry born before is older. Fills under way are
-- left alone: born before, they count as missing once they are stored.
--
-- Without memory clock and tag are deleted instead. An entry of a tag without an epoch is out of date, too. The clock
-- goes so that the tag's next epoch is of another era than the entry.

local clock_key, tag_key = KEYS[1], KEYS[2]
local max_value_ms = ARGV[1]

-- The next state of the clock, or the first of a new era.
local function next_clock()
  local clock = redis.pcall('GET', clock_key)
  if type(clock) == 'string' and #clock == 29 and string.find(clock, '^%d+%.%d+$') then
    return string.sub(clock, 1, 17) .. string.format('%012.0f', tonumber(string.sub(clock, 18)) + 1)
  end
  local time = redis.call('TIME')
  return string.format('%016.0f.%012.0f', time[1] * 1000000 + time[2], 1)
end

local known = redis.call('PTTL', tag_key) ~= -2 and 1 or 0
local clock = next_clock()
local stored = redis.pcall('SET', clock_key, clock, 'PX', max_value_ms)
if not stored.err then stored = redis.pcall('SET', tag_key, clock, 'PX', max_value_ms) end
if stored.err then redis.call('DEL', clock_key, tag_key) end
redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- a hint: near caches also have an end
return known
