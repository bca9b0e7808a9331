-- tag_invalidate: every entry with this tag is out of date, and so is what a running load has read.
--
-- KEYS  clock, reign, tag, its expiries
-- ARGV  1 max_value_ms    2 channel    3 message
--       4 mode   h  hard: its entries are gone
--                s  soft: they are stale from now on, each for at most its own stale time
--
-- Replies  1 an entry may have had this tag    0 none had
--
-- The clock moves on and the tag's epoch becomes what it shows: every entry born before is older. Fills under way are
-- left alone: born before, they count as missing, or as stale, once they are stored.
--
-- Without memory for the clock both are deleted: an entry of a tag without an epoch is out of date, and the tag's
-- next epoch is of another era. If only the epoch cannot be stored, only it is deleted, for the clock has moved on
-- already.
--
-- An expiry is noted beside the epoch, if that one is of the same era: of another no entry could be good. See
-- tag_stale.

-- include tag_epoch
-- include tag_common
-- include tag_expiry

local tag_key, expiry_key, max_value_ms = KEYS[3], KEYS[4], ARGV[1]
local MOST = 16

-- One more; those that are so long ago that no stale time lasts are a floor. Of too many the two that are closest
-- become one, which counts from the older: no stale time gets longer by it.
local function add_expiry(expiries, clock)
  table.insert(expiries, {count = count(clock), age_ms = 0})
  while expiries[1].age_ms >= tonumber(max_value_ms) do expiries.floor = table.remove(expiries, 1).count end
  if #expiries <= MOST then return end
  local closest, least_ms = 1, math.huge
  for i = 1, #expiries - 1 do
    local gap_ms = expiries[i].age_ms - expiries[i + 1].age_ms
    if gap_ms < least_ms then closest, least_ms = i, gap_ms end
  end
  expiries[closest + 1].age_ms = table.remove(expiries, closest).age_ms
end

local function store_expiries(expiries, clock)
  local text = string.format('%013.0f %s.%012.0f', max_value_ms, era(clock), expiries.floor)
  for _, expiry in ipairs(expiries) do
    text = text .. string.format(' %012.0f %013.0f', expiry.count, expiry.age_ms)
  end
  if redis.pcall('SET', expiry_key, text, 'PX', max_value_ms).err then redis.call('DEL', expiry_key) end
end

local known = redis.call('PTTL', tag_key) ~= -2 and 1 or 0
local before = read_clock(tag_key)
local clock = clock_after(1)
local stored = store_clock(clock, max_value_ms)
if not stored.err then stored = redis.pcall('SET', tag_key, clock, 'PX', max_value_ms) end
if stored.err then redis.call('DEL', tag_key) end
if ARGV[4] == 's' and before and era(before) == era(clock) then
  local expiries = read_expiries(expiry_key, before) or {floor = count(before)}
  add_expiry(expiries, clock)
  store_expiries(expiries, clock)
else
  redis.call('DEL', expiry_key)
end
redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- a hint: near caches also have an end
return known
