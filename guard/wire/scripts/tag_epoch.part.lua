-- tag_epoch: what the clock of the tags and their epochs look like.

-- A clock or an epoch; nil if there is none, or something else.
local function read_clock(key)
  local clock = redis.pcall('GET', key)
  if type(clock) == 'string' and #clock == 29 and string.find(clock, '^%d+%.%d+$') then return clock end
end

local function era(clock) return string.sub(clock, 1, 16) end
local function count(clock) return tonumber(string.sub(clock, 18)) end
