-- permit_renew: the load under this permit still runs.
--
-- KEYS  permits
-- ARGV  1 token    2 permit_ms
--
-- Replies  1 renewed    0 it was lost, and is out again
--
-- Why a lost permit comes back, unlike a lease, and also beyond the limit: its load runs, with or without it, and a
-- permit that is not counted would be granted once more. So after Redis came back empty the fleet is within its limit
-- again as soon as the permits in use have been renewed and enough of them have been given back.

local permits_key, token, permit_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now_ms)
local added = redis.call('ZADD', permits_key, now_ms + permit_ms, token)
redis.call('PEXPIRE', permits_key, permit_ms + 1000)
return 1 - added
