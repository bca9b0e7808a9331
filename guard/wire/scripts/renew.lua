-- renew: lengthens the lease while its load runs.
--
-- KEYS  lease
-- ARGV  1 token    2 lease_ms
--
-- Replies  1 renewed    0 lost; nothing changed
--
-- Why PEXPIRE and not SET: a renewal that created the key would bring back a lease that an invalidation
-- has voided, and with it the right to store what was read before.

if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
