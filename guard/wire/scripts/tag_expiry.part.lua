-- tag_expiry: the expiries of a tag, as they stand beside its epoch.
--
--   "<px, 13 digits> <floor, 29>", then for each expiry, oldest first: " <count, 12 digits> <age in ms, 13 digits>"
--
-- The floor is the epoch that the tag had before the first of them: what was born under it was good until then. Each
-- count is the epoch that an expiry gave the tag. The ages are those at the last expiry, px what the key had to live
-- then; what is left of that tells how long ago it was, so that no time of day takes part.
--
-- They are believed only if the last of them is the present epoch. So an invalidation since then wins, and so does a
-- new epoch in place of one that was lost. Without them older entries are missing, never fresh.

-- {floor = count, {count =, age_ms =}, ...}, the ages as of now; nil: none to be believed.
local function read_expiries(key, epoch)
  local text, ttl_ms = redis.pcall('GET', key), redis.call('PTTL', key)
  if type(text) ~= 'string' or not epoch or string.sub(text, 15, 31) ~= era(epoch) .. '.' then return end
  local px = tonumber(string.sub(text, 1, 13)) or 0
  if ttl_ms < 0 or ttl_ms > px then return end
  local expiries = {floor = tonumber(string.sub(text, 32, 43))}
  for at, age_ms in string.gmatch(string.sub(text, 44), ' (%d+) (%d+)') do
    table.insert(expiries, {count = tonumber(at), age_ms = tonumber(age_ms) + px - ttl_ms})
  end
  local last = expiries[#expiries]
  if last and last.count == count(epoch) then return expiries end
end
