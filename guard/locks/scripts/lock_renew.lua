-- lock_renew: lengthens the hold of this token in all its names. Creates nothing, touches nobody else's.
--
-- KEYS  held of each name, then fence of each
-- ARGV  1 token    2 fence_ms
--       3... numbers that the fences of the names must not fall behind, or none: RedLock's, which a quorum agrees on
--
-- Replies  1 renewed    0 it is gone in one of them; nothing changed
--
-- A hold whose lease is over but that nobody has dropped has never been anybody else's: it is renewed.
--
-- Why the first write, which changes nothing: a replica refuses it, and so does a master that has lost its replicas;
-- without it they would say that the lock is lost. And Redis no longer refuses memory to a script that has written.

local call = redis.call
local token, lease_ms = ARGV[1], tonumber(ARGV[1]:sub(54, 61))
local names = #KEYS / 2

call('ZREM', KEYS[1], '')
for i = 1, names do
  if not call('ZSCORE', KEYS[i], token) then return 0 end
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, names do
  local held, fence, floor = KEYS[i], KEYS[names + i], tonumber(ARGV[2 + i])
  call('ZADD', held, now + lease_ms, token)
  if call('PTTL', held) < lease_ms + 1000 then call('PEXPIRE', held, lease_ms + 1000) end
  if floor and floor > (tonumber(redis.pcall('GET', fence)) or 0) then
    call('SET', fence, floor, 'PX', ARGV[2])
  else
    call('PEXPIRE', fence, ARGV[2])
  end
end
return 1
