-- tag_invalidate: every entry with this tag is out of date, and so is what a running load has read.
--
-- KEYS  clock, reign, tag
-- ARGV  1 max_value_ms    2 channel    3 message
--
-- Replies  1 an entry may have had this tag    0 none had
--
-- The clock moves on and the tag's epoch becomes what it shows: every entry born before is older. Fills under way are
-- left alone: born before, they count as missing once they are stored.
--
-- Without memory clock and tag are deleted instead. An entry of a tag without an epoch is out of date, too. The clock
-- goes so that the tag's next epoch is of another era than the entry.

-- include tag_common

local tag_key, max_value_ms = KEYS[3], ARGV[1]

local known = redis.call('PTTL', tag_key) ~= -2 and 1 or 0
local clock = clock_after(1)
local stored = store_clock(clock, max_value_ms)
if not stored.err then stored = redis.pcall('SET', tag_key, clock, 'PX', max_value_ms) end
if stored.err then redis.call('DEL', clock_key, tag_key) end
redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- a hint: near caches also have an end
return known
