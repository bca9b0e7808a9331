-- permit_acquire: one of the fleet's load permits, if one is free for the caller; otherwise a place in their queue.
--
-- KEYS  permits, queue, alive
-- ARGV  1 token       names the permit; the same one again is the same permit, however often it arrives
--       2 waiter      names the process in the queue
--       3 limit       permits that may be out at a time
--       4 permit_ms   its life; a process that holds it longer renews it
--       5 wait_ms     a place in the queue is kept for so long; a process that waits longer asks again
--       6 class       u  the load has waiters
--                     r  it is a background refresh
--       7 more        1  the caller wants more permits: with this one it goes to the end of the queue    0  it does
--                                                                                                           not
--       8 channel
--
-- Replies
--    n > 0   granted; n - 1 further ones are free for the caller
--   -n < 0   refused; the first that is out runs out in n ms
--
-- permits  zset token -> the instant at which it runs out, in ms of Redis's clock
-- queue    zset waiter -> order: class u from 1, class r from 1e12; first come, first served within a class
-- alive    zset waiter -> the instant at which it counts as dead, likewise
--
-- Why a queue: without it the process that gives a permit back is always the first to ask again, and a process that
-- has to be woken first never gets one. A permit is granted if one is left for the caller after all that are ahead of
-- it.
--
-- Why a refusal may publish (as permit_release does): a process that asks for another class goes to the end of that
-- class. A free permit may have been announced to it, and the process that is next instead has not been told. A
-- process that keeps its place, or had none, owes no message: those ahead of it have had theirs.
--
-- Why the same token may be sent again, unlike that of a lease: a permit grants no right to store anything, it only
-- counts. A duplicate that arrives while the permit is out changes nothing. One that arrives after the release takes
-- a permit that no load uses, never one too many, and that runs out after permit_ms. With a new token for each
-- attempt every late command would leave such a permit behind, not only those that arrive after the release.
--
-- Why clamps: Redis's clock may step back. A permit that would then run out too late is shortened, not dropped: its
-- holder is at work.
--
-- Works without memory, too: Redis no longer refuses memory to a script that has already written something.

local permits_key, queue_key, alive_key = KEYS[1], KEYS[2], KEYS[3]
local token, waiter = ARGV[1], ARGV[2]
local limit, permit_ms, wait_ms = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local base = ARGV[6] == 'r' and 1e12 or 0
local more = ARGV[7] == '1'

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function clamp(key, longest_ms)
  local latest_ms = now_ms + longest_ms
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. latest_ms, '+inf')) do
    redis.call('ZADD', key, latest_ms, member)
  end
end

redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now_ms)
clamp(permits_key, permit_ms)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', alive_key, '-inf', now_ms)) do
  redis.call('ZREM', queue_key, dead)
  redis.call('ZREM', alive_key, dead)
end
clamp(alive_key, wait_ms)
-- One of the two was evicted: no process may wait behind one that has gone. Those that wait ask again.
if redis.call('ZCARD', queue_key) ~= redis.call('ZCARD', alive_key) then redis.call('DEL', queue_key, alive_key) end

local order = tonumber(redis.call('ZSCORE', queue_key, waiter) or nil)
local fell_back = order and (order > 1e12) ~= (base > 0)
if fell_back then
  redis.call('ZREM', queue_key, waiter)
  order = nil
end
local ahead = redis.call('ZCOUNT', queue_key, '-inf', '(' .. (order or base + 1e12))

local function line_up()
  local last = redis.call('ZREVRANGEBYSCORE', queue_key, '(' .. base + 1e12, base, 'WITHSCORES', 'LIMIT', 0, 1)
  redis.call('ZADD', queue_key, (last[2] or base) + 1, waiter)
end

local function stay()
  redis.call('ZADD', alive_key, now_ms + wait_ms, waiter)
  redis.call('PEXPIRE', queue_key, wait_ms + 1000)
  redis.call('PEXPIRE', alive_key, wait_ms + 1000)
end

local mine = redis.call('ZSCORE', permits_key, token)
local others = redis.call('ZCARD', permits_key) - (mine and 1 or 0)
if mine or others + ahead < limit then
  redis.call('ZADD', permits_key, now_ms + permit_ms, token)
  redis.call('PEXPIRE', permits_key, permit_ms + 1000)
  if more then
    line_up()
    stay()
    return 1 + math.max(0, limit - others - 1 - redis.call('ZRANK', queue_key, waiter))
  end
  redis.call('ZREM', queue_key, waiter)
  redis.call('ZREM', alive_key, waiter)
  return 1
end

if not order then line_up() end
stay()
if fell_back and others < limit then
  for _, next in ipairs(redis.call('ZRANGE', queue_key, 0, limit - others - 1)) do
    if next ~= waiter then redis.pcall('PUBLISH', ARGV[8], 'p - ' .. next) end -- a hint: waiters also poll
  end
end
local first = redis.call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')
return -math.max(1, (first[2] or now_ms + wait_ms) - now_ms)
