-- permit_renew: the load under this permit still runs.
--
-- KEYS  permits
-- ARGV  1 token    2 permit_ms
--
-- Replies  1 renewed    0 it was lost, and is out again
--
-- Why one that was lost comes back, unlike a lease, and also beyond the limit: the load runs, with or without it. What
-- is not counted would be granted once more. After a Redis that came back empty the fleet is so back within its limit
-- as soon as what runs has been renewed and enough of it has ended.

local permits_key, token, permit_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now_ms)
local added = redis.call('ZADD', permits_key, now_ms + permit_ms, token)
redis.call('PEXPIRE', permits_key, permit_ms + 1000)
return 1 - added
