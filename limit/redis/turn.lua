-- Buckets that let requests wait: leaky ones (8), and those of tokens (9). What waits is
-- in use already, so their state is that of a token bucket (1), with more than b in use
-- while somebody waits. whole units and extra parts of one fit with all places taken.

-- inLine asks for units, for a request that waits until the microsecond turn anyway. It
-- answers as a token bucket does, and how many parts are in use then.
local function inLine(s, units, n, w, b, g, whole, extra, leaky, turn)
  local t = floor(now / g)
  local at, used, rest, born = t, 0, 0, now
  if s then
    local on, ow, ob, og
    at, used, rest, born, on, ow, ob, og = unpack('<dddddddd', s, 2)
    if on == n and ow == w and ob == b and og == g then
      at, used, rest = refill(at, used, rest, t, n, w)
    else -- other numbers: what was in use stays in use, as much as fits
      at, used = refill(at, used, rest, floor(now / og), on, ow)
      at, rest = max(ceil(at * og / g), t), 0
      if used > whole then used, born = whole, now end
    end
  end
  if turn and ceil(turn / g) > at then -- what comes back until then stays empty
    local parts = (ceil(turn / g) - at) * n
    local r = fmod(parts, w)
    local u = (parts - r) / w
    if r > 0 then u, r = u + 1, w - r end
    if u > used or u == used and r < rest then used, rest = u, r end
  end
  local most = leaky and whole or b
  local free = whole - used
  if rest + extra >= w then free = free + 1 end
  local ok, wait = units == 0, 0
  if ok then -- it looks only
  elseif units > most then
    wait = -1
  elseif units > free then
    wait = (at + up((used + units - whole) * w - rest - extra, n)) * g - now
  else
    local short = (used + units - max(units, b)) * w - rest
    local over = short + (at - t) * n - (whole - b) * w - extra
    if short > 0 and over > 0 and at > t then -- the clock went back: more than may be waited for
      wait = (t + up(over, n)) * g - now
    else
      ok = true
      if short > 0 then wait = (at + up(short, n)) * g - now end
      used = used + units
      free = free - units
    end
  end
  local left, parts = b - used, rest
  if leaky then left, parts = free, rest + extra end
  local full, reset = 0, 0
  if used > 0 then
    full = (at + up(used * w - rest, n)) * g - now
    if left > 0 then
      reset = full
    elseif leaky then
      reset = (at + up((used + 1 - whole) * w - parts, n)) * g - now
    else
      reset = (at + up((1 - left) * w - rest, n)) * g - now
    end
  end
  return ok, max(0, left), wait, reset, pack('<Bdddddddd', 1, at, used, rest, born, n, w, b, g), full, at * g, born, used * w - rest
end
