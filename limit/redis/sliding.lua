-- A sliding window: used units in the window that begins at the grain at, rest in
-- the one before.
local function faded(before, free, w) -- how far into a window so many weigh at most free
  if before <= free then return 0 end
  local p = free * w
  return w - (p - fmod(p, before)) / before
end

take[3] = function(s, units, n, w, b, g)
  local t = floor(now / g)
  local start = t - fmod(t, w)
  local at, used, before, born = start, 0, 0, now
  if s then
    local on, ow, ob, og
    at, used, before, born, on, ow, ob, og = unpack('<dddddddd', s, 2)
    if og ~= g then at = at * og / g end
    if start > at then
      if start - w == at then before = max(0, used) else before = 0 end
      at, used = start, 0
    end
  end
  local e = max(t, at) - at
  local left = 0
  if used < b then left = max(0, b - used - up(before * (w - e), w)) end
  local ok = units == 0 or units <= left
  local function until_(c)
    if used + c <= b then return (at + faded(before, b - used - c, w)) * g - now end
    return (at + w + faded(used, b - c, w)) * g - now
  end
  local wait = 0
  if ok then
    used = used + units
    left = max(0, left - units)
  elseif units > b then
    wait = -1
  else
    wait = until_(units)
  end
  local full = 0
  if used > 0 then full = (at + 2 * w) * g - now elseif before > 0 then full = (at + w) * g - now end
  local reset = full
  if full > 0 and left == 0 then reset = until_(1) end
  return ok, left, wait, reset, pack('<Bdddddddd', 3, at, used, before, born, n, w, b, g), full, max(now, at * g), born
end
