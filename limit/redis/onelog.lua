-- take.lua for the usual request of a sliding log: one claim that is taken for good.
local _, flags, units, _, w, b, g = unpack('<BBddddd', ARGV[1])
local l = log(KEYS[1])
local t = max(now, l.newest)
w = w * g
drop(l, t, w, false)
if not l.exists then l.born = now end
local ok, left, wait, reset = logged(l, units, t, w, b)
if not ok then
  if l.exists and redis.call('PTTL', l.key) == -1 then
    redis.call('PEXPIRE', l.key, ceil((max(l.newest + w, l.ends) - now) / 1000) + slack)
  end
elseif units > 0 then
  push(l, t, units, w)
end
return pack('<BBddddd', (ok or flags % 2 == 1) and 49 or 48, ok and 1 or 0, left, wait, reset, t, l.born)
