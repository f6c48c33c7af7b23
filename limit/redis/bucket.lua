-- A token bucket: used - rest/w units are in use at the instant at, in grains of g
-- microseconds; n parts of w come back each grain.
local function refill(at, used, rest, t, n, w)
  if t > at then
    if used > 0 then
      local back = (t - at) * n
      if back >= used * w - rest then
        used, rest = 0, 0
      else
        back = back + rest
        rest = fmod(back, w)
        used = used - (back - rest) / w
      end
    end
    at = t
  end
  if used <= 0 then used, rest = 0, 0 end
  return at, used, rest
end

take[1] = function(s, units, n, w, b, g)
  local t = floor(now / g)
  local at, used, rest, born = t, 0, 0, now
  if s then
    local on, ow, ob, og
    at, used, rest, born, on, ow, ob, og = unpack('<dddddddd', s, 2)
    if on == n and ow == w and ob == b and og == g then
      at, used, rest = refill(at, used, rest, t, n, w)
    else -- other numbers: what was in use stays in use, at most a burst
      at, used = refill(at, used, rest, floor(now / og), on, ow)
      at, rest = max(ceil(at * og / g), t), 0
      if used > b then used, born = b, now end
    end
  end
  local left = b - used
  local ok = units == 0 or units <= left
  local wait = 0
  if ok then
    used = used + units
    left = left - units
  elseif units > b then
    wait = -1
  else
    wait = (at + up((units - left) * w - rest, n)) * g - now
  end
  local full, reset = 0, 0
  if used > 0 then
    full = (at + up(used * w - rest, n)) * g - now
    reset = full
    if left <= 0 then reset = (at + up((1 - left) * w - rest, n)) * g - now end
  end
  return ok, max(0, left), wait, reset, pack('<Bdddddddd', 1, at, used, rest, born, n, w, b, g), full, at * g, born
end
