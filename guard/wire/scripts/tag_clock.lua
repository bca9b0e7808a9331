-- tag_clock: what the clock of the tags shows; begins it if it is missing.
--
-- KEYS  clock
-- ARGV  1 max_value_ms: the clock is kept at least half as long after it was read
--
-- Replies  "<era, 16 digits>.<count, 12 digits>"
--
-- Sent before the acquire, so that the clock is read before the query: a value that is loaded then was born at or after
-- what the clock shows. The era is the time at which the clock began, in microseconds. It is only a name and compared
-- only for equality: a new clock must not begin where an evicted one was, and Redis's time may have stepped back
-- meanwhile, so eras have no order.

local clock_key, max_value_ms = KEYS[1], tonumber(ARGV[1])

local clock = redis.pcall('GET', clock_key)
if type(clock) == 'string' and #clock == 29 and string.find(clock, '^%d+%.%d+$') then
  if redis.call('PTTL', clock_key) * 2 < max_value_ms then redis.call('PEXPIRE', clock_key, max_value_ms) end
  return clock
end

local time = redis.call('TIME')
clock = string.format('%016.0f.%012.0f', time[1] * 1000000 + time[2], 1)
redis.call('SET', clock_key, clock, 'PX', max_value_ms)
return clock
