-- take.lua for the usual request: one claim that is taken for good, of an algorithm
-- whose state is a string.
local key = KEYS[1]
local kind, flags, units, n, w, b, g = unpack('<BBddddd', ARGV[1])
local s, side = read(key, kind)
local ok, left, wait, reset, next, full, at, born = take[kind](s, units, n, w, b, g)
if ok then
  if side then
    write(key, next, side, full)
  elseif units > 0 then
    redis.call('SET', key, next, 'PX', ceil(full / 1000) + slack)
  end
elseif s and redis.call('PTTL', key) == -1 then
  redis.call('PEXPIRE', key, ceil(full / 1000) + slack)
end
if ok then ok = 1 else ok = 0 end
if flags % 2 == 1 or ok == 1 then
  return pack('<BBddddd', 49, ok, left, wait, reset, at, born)
end
return pack('<BBddddd', 48, 0, left, wait, reset, at, born)
