-- acquire: looks a key up and, if it must be loaded and no process does, grants the lease, in one step.
--
-- KEYS  value, lease, failure, waiting
-- ARGV  1 token         "<uuid> <tag> <lease_ms>", bytes as below; used in one acquire only
--       2 prev          token of an earlier attempt of the caller's whose reply never came, or ""
--       3 lease_ms      4 max_lease_ms      5 max_value_ms
--       6 mode          n  a stale value will do
--                       x  it will not: stale counts as missing, unless its stale time is its own
--                       r  as n, and refresh a fresh value before its time unless another process does:
--                          the one whose first 36 bytes argument 7 has (any, if that is ""); one that has
--                          come since is new enough
--                       p  peek: as n, but never take the lease
--                       v  revalidate: only a fresh value answers whose first 36 bytes are none of the two names in
--                          argument 7 (none does, if that is ""), or the mark of a pass; any other one stays, and the
--                          lease is taken over it
--                       w  as v, but never take the lease
--       7 refused       optional, not with r, v and w: the first 36 bytes of a value that the caller found damaged or
--                       of another key; it counts as missing for as long as it stands there
--       8 waits         optional: what the caller will wait for if another process has the lease
--                       b  a missing value
--                       s  a missing value, or the refresh of a stale one
--                       B and S  the same, but it wants nothing pushed
--
-- Replies
--   {H, value, ttl_ms}                     fresh
--   {S, value, ttl_ms, 1}                  stale (r: or fresh); the caller has the lease and refreshes it
--   {S, value, ttl_ms, 0, tag}             stale; another process refreshes it (p: or none does, tag "")
--   {S, value, ttl_ms, -1, failure_ttl_ms} stale; the last load failed, cooling down
--   {L, lease_ms}                          missing; the caller has the lease and loads it
--   {L, lease_ms, 1}                       likewise, and the load before was abandoned
--   {B, lease_ttl_ms, tag}                 missing; another process loads it. To v and w a fourth one: the first 36
--                                          bytes of what stands there, or blanks, and of the lease
--   {E, code, failure_ttl_ms}              missing; the last load failed, cooling down
--   {M}                                    missing, no process loads it (p and w only)
--
-- Why one script: between a lookup and a later request for the lease another process may fill and release, and
-- the row would be loaded twice.
--
-- Why prev: a token that is sent twice could arrive twice, the second time after an invalidation has voided
-- it, and would make its stale fill acceptable again. A new token that removes the old one cannot.
--
-- Why two names: what was there when a process first looked was loaded before that, and what the lease of that
-- moment stores may have been. Whatever has another filler was loaded under a lease that was granted since.
--
-- Why the waiting mark: it holds the tag of the lease that a process waits for, and tells the fill under that
-- lease that its message should carry the value; behind the tag stands a dash if no process that waits wants that. A
-- mark of another lease says nothing. A process that waits asks again before its mark runs out. Where no
-- lease stands release may have left another mark there: the next lease comes with it, and the next mark takes its
-- place.
--
-- Why a fence: a replica, and a master that has lost its replicas, refuse only writes. A script that writes
-- nothing therefore ends with a write that changes nothing, so that those servers do not answer it. The write
-- comes last, because a script that has written is no longer refused memory. It is ZREM, not GETEX, because every
-- Redis and every login here has that, and its key is missing or no sorted set.
--
-- Why clamps: no client's clock takes part, but Redis's own may step back, which lengthens every TTL, and an
-- operator may have removed a key's TTL. Each key carries the longest TTL that it can rightly have.

local value_key, lease_key, failure_key, waiting_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, prev, mode, named, waits = ARGV[1], ARGV[2], ARGV[6], ARGV[7] or '', ARGV[8] or ''
local max_lease_ms, max_value_ms = tonumber(ARGV[4]), tonumber(ARGV[5])

-- The string under a key; nil if there is none, or something of another type, which the next SET overwrites.
local function get(key)
  local reply = redis.pcall('GET', key)
  if type(reply) == 'string' then return reply end
end

-- The number in a fixed-width decimal field; nil if it is not one.
local function digits(text, first, last)
  local field = string.sub(text, first, last)
  if #field == last - first + 1 and not string.find(field, '%D') then return tonumber(field) end
end

-- The remaining TTL, after cutting it to limit_ms.
local function clamp(key, limit_ms)
  local ttl_ms = redis.call('PTTL', key)
  if ttl_ms >= 0 and ttl_ms <= limit_ms then return ttl_ms end
  redis.call('PEXPIRE', key, limit_ms)
  return limit_ms
end

-- The same for a field that holds a TTL, which is never 0.
local function ttl(text, first, last)
  local ms = digits(text, first, last)
  if ms and ms > 0 then return ms end
end

-- The value: bytes 1-36 filler, 38-50 px_ms, 52-64 stale_ms, 84 whose that is. The mark of a pass stands here, too,
-- and is fresh for as long as it does. A value without digits there is not the guard's. In
-- its last millisecond it counts as gone.
local value, value_ttl_ms, is_fresh = get(value_key), 0, false
local is_named = value and string.sub(value, 1, 36) == named
local revalidates, filler = mode == 'v' or mode == 'w', string.sub(value or '', 1, 36)
if value then
  local px_ms, stale_ms = ttl(value, 38, 50), digits(value, 52, 64)
  if px_ms and stale_ms and (mode == 'r' or not is_named) then
    value_ttl_ms = clamp(value_key, math.min(px_ms, max_value_ms))
    is_fresh = value_ttl_ms > stale_ms
  end
  local will_do = is_fresh or mode ~= 'x' or string.sub(value, 84, 84) == 'o'
  if value_ttl_ms < 1 or not will_do then value = nil end
end
local counts = named ~= '' and filler ~= string.sub(named, 1, 36) and filler ~= string.sub(named, 37, 72)
if revalidates and value and not counts then is_fresh = string.sub(value, 71, 71) == 'p' end

-- The lease: bytes 1-36 UUID, 38-53 tag, 55-61 lease_ms, then host:pid and the time, for people.
local lease, lease_ttl_ms = get(lease_key), 0
if lease and prev ~= '' and lease == prev then
  redis.call('DEL', lease_key, waiting_key)
  lease = nil
end
local lease_own_ms = lease and ttl(lease, 55, 61) or max_lease_ms
if lease then lease_ttl_ms = clamp(lease_key, lease_own_ms) end

-- The failure lease, as release writes it: bytes 1-10 its own TTL, from byte 12 the code.
local failure, failure_ttl_ms = get(failure_key), 0
if failure then
  local own_ms = ttl(failure, 1, 10)
  failure_ttl_ms = clamp(failure_key, own_ms or max_lease_ms)
  if own_ms then failure = string.sub(failure, 12) end
end

-- Sets the waiting mark and returns the tag of the lease. The mark is a hint, so it may fail alone.
local function wait_for_lease()
  local tag = string.match(string.sub(lease, 38, 53), '^%x+$') or ''
  local kind = string.lower(waits)
  if tag ~= '' and (kind == 's' or (kind == 'b' and not value)) then
    local wants_push = kind == waits or redis.pcall('GET', waiting_key) == tag
    redis.pcall('SET', waiting_key, wants_push and tag or tag .. '-', 'PX', lease_own_ms)
  end
  return tag
end

local function fenced(reply)
  local fence = redis.pcall('ZREM', lease and failure_key or lease_key, '')
  if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then return fence end
  return reply
end

local early = mode == 'r' and (is_named or named == '')
if is_fresh and (not early or lease or failure) then return fenced({'H', value, value_ttl_ms}) end

if lease then
  local tag = wait_for_lease()
  if revalidates then
    return fenced({'B', lease_ttl_ms, tag, string.format('%36s%36s', filler, string.sub(lease, 1, 36))})
  end
  if value then return fenced({'S', value, value_ttl_ms, 0, tag}) end
  return fenced({'B', lease_ttl_ms, tag})
end
if failure then
  if value and not revalidates then return fenced({'S', value, value_ttl_ms, -1, failure_ttl_ms}) end
  return fenced({'E', failure, failure_ttl_ms})
end
if mode == 'p' or mode == 'w' then
  if value and not revalidates then return fenced({'S', value, value_ttl_ms, 0, ''}) end
  return fenced({'M'})
end

redis.call('SET', lease_key, token, 'PX', ARGV[3])
if value then return {'S', value, value_ttl_ms, 1} end
if redis.pcall('GET', waiting_key) == 'abandoned' then return {'L', tonumber(ARGV[3]), 1} end
return {'L', tonumber(ARGV[3])}
