local spread, unpack, pack, fmod, floor, ceil, max, min = unpack, struct.unpack, struct.pack, math.fmod, math.floor, math.ceil, math.max, math.min
local sub, byte = string.sub, string.byte
local take, back, container = {}, {}, {}
local penalty -- how refusals are counted, where they are
local lines, lineUp, leaveLine -- whether requests may have to wait, and what then: see queue.lua

-- up returns a/b rounded up. math.fmod is exact, a division is not.
local function up(a, b)
  local r = fmod(a, b)
  if r > 0 then return (a - r) / b + 1 end
  return (a - r) / b
end

-- checked calls a command that reads. What is no value of ours under a key of ours
-- is as if it were not there.
local function checked(key, ...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err then return r end
  if not string.find(r.err, 'WRONGTYPE', 1, true) then return redis.call(...) end
  redis.call('DEL', key)
  return false
end

-- A state is a byte for its algorithm, eight doubles (its instant, units in use, a
-- rest, the life of the key, and the numbers it was counted under), and, of a rule
-- that gives back, four more: units that may still come back, when the last of them
-- were taken, and the window of what came back, and how much.
local plain = 65
local both = 97
local function read(key, kind)
  local s = redis.pcall('GET', key)
  if type(s) == 'table' then s = checked(key, 'GET', key) end
  if not s or byte(s) ~= kind then return nil end
  if #s == plain then return s end
  if #s == both then return sub(s, 1, plain), sub(s, plain + 1) end
  return nil
end


-- write stores a state for as long as it, or what may not come back any more, is
-- worth remembering.
local function write(key, s, side, full)
  if side then
    full = max(full, unpack('<d', side, 17) - now)
    s = s .. side
  end
  redis.call('SET', key, s, 'PX', ceil(full / 1000) + slack)
end
