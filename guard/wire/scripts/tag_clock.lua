-- tag_clock: what the clock of the tags shows; begins it if it is missing.
--
-- KEYS  clock, reign
-- ARGV  1 max_value_ms: the clock is kept at least half as long after it was read
--
-- Replies  "<era, 16 digits>.<count, 12 digits>"
--
-- Sent before the acquire, so that the clock is read before the query: a value that is loaded then was born at or
-- after what the clock shows. The era is the time at which the clock began, in microseconds. It is only a name and
-- compared only for equality: a new clock must not begin where an evicted one was, and Redis's time may have stepped
-- back meanwhile, so eras have no order.

-- include tag_epoch
-- include tag_common

local max_value_ms = tonumber(ARGV[1])
local clock = clock_after(0)
if clock ~= last_clock then
  local stored = store_clock(clock, max_value_ms)
  if stored.err then return stored end
elseif redis.call('PTTL', clock_key) * 2 < max_value_ms then
  redis.call('PEXPIRE', clock_key, max_value_ms)
  redis.call('PEXPIRE', reign_key, max_value_ms)
end
return clock
