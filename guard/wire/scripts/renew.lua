-- renew: lengthens the lease while its load runs.
--
-- KEYS  lease, and optionally waiting
-- ARGV  1 token    2 lease_ms
--
-- Replies  1 renewed    2 renewed, and another process waits (only with waiting)    0 lost; nothing changed
--
-- Why PEXPIRE and not SET: a renewal that created the key would bring back a lease that an invalidation
-- has voided, and with it the right to store what was read before.

if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local mark = KEYS[2] and redis.pcall('GET', KEYS[2])
if type(mark) == 'string' and string.sub(mark, 1, 16) == string.sub(ARGV[1], 38, 53) then
  return 2 * redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
