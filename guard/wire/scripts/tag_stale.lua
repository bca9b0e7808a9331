-- tag_stale: what an entry that is older than its tags has of their expiries.
--
-- KEYS  one to eight tags, then the expiries of each
-- ARGV  1 born   what the clock showed before the entry was loaded
--
-- Replies
--   {born, age_ms}   each tag that is younger was expired, none invalidated; the first of these expiries that it is
--                    older than was so long ago. Stale, it may be called born at that, the youngest epoch of its tags
--   ''               it is out of date
--
-- One script, because single epochs could be read before and after an invalidation: the youngest would hide it.

-- include tag_epoch
-- include tag_expiry

local born, tags = ARGV[1], #KEYS / 2

-- As in acquire: only the master may say so.
local function fenced(reply)
  local fence = redis.pcall('ZREM', KEYS[1], '')
  if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then return fence end
  return reply
end

-- How long ago the first expiry was that the entry is older than; nil: it was good under none.
local function expired_ms(expiries)
  if not expiries or count(born) < expiries.floor then return end
  for _, expiry in ipairs(expiries) do
    if expiry.count > count(born) then return expiry.age_ms end
  end
end

local youngest, age_ms = born, -1
for i = 1, tags do
  local epoch = read_clock(KEYS[i])
  if not epoch or era(epoch) ~= era(born) then return fenced('') end
  if count(epoch) > count(born) then
    local ms = expired_ms(read_expiries(KEYS[tags + i], epoch))
    if not ms then return fenced('') end
    age_ms = math.max(age_ms, ms)
  end
  if count(epoch) > count(youngest) then youngest = epoch end
end
if age_ms < 0 then return fenced('') end
return fenced({youngest, age_ms})
