-- Buckets that let requests wait: leaky ones (8), and those of tokens (9). What waits is
-- in use already, so their state is that of a token bucket (1), with more than b in use
-- while somebody waits. whole units and extra parts of one fit with all places taken.

-- inLine asks for units of a, whose request waits until the microsecond turn anyway.
local function inLine(a, units, turn)
  local n, w, b, g, whole, extra, leaky = a.n, a.w, a.b, a.g, a.whole, a.extra, a.kind == 8
  local t = floor(now / g)
  local at, used, rest, born = t, 0, 0, now
  if a.state then
    local on, ow, ob, og
    at, used, rest, born, on, ow, ob, og = unpack('<dddddddd', a.state, 2)
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
  a.full, a.reset = 0, 0
  if used > 0 then
    a.full = (at + up(used * w - rest, n)) * g - now
    if left > 0 then
      a.reset = a.full
    elseif leaky then
      a.reset = (at + up((used + 1 - whole) * w - parts, n)) * g - now
    else
      a.reset = (at + up((1 - left) * w - rest, n)) * g - now
    end
  end
  a.ok, a.left, a.wait, a.at, a.born = ok, max(0, left), wait, at * g, born
  a.next = pack('<Bdddddddd', 1, at, used, rest, born, n, w, b, g)
  a.more = pack('<d', used * w - rest)
end

container[8] = function(a, arg, units)
  if not a.look then
    a.look = container[8]
    a.whole, a.extra = unpack('<dd', arg, 43)
    a.state, a.side = read(a.key, 1)
    lines = true
  end
  inLine(a, units)
  if a.ok or a.wait <= 1000000 or not a.side then return end
  -- As soften in take.lua; but while somebody waits nothing comes back.
  local reserved, since = unpack('<dd', a.side)
  local at, used = unpack('<dd', a.next, 2)
  if reserved <= 0 or used > a.b and floor(since / a.g) < at then return end
  local b = { kind = a.kind, n = a.n, w = a.w, b = a.b, g = a.g, whole = a.whole, extra = a.extra }
  b.state = back[1](a.next, reserved, since, a.n, a.w, a.g)
  inLine(b, units)
  if b.ok then a.wait = 1000000 end
end
container[9] = container[8]

-- lineUp decides anew when one of asks has to wait, or waits for given microseconds
-- anyway: it leaves all leaky buckets at the last of its turns, takes no slots before,
-- and needs none. With given below 0 it does not pass when it need not wait.
lineUp = function(asks, passes, given)
  local turn = max(given, 0)
  for i = 1, #asks do
    local a = asks[i]
    if not a.dry then
      if a.ok then turn = max(turn, a.wait) elseif a.kind ~= 5 or a.blocked then return false end
    end
  end
  if turn == 0 then return passes and given == 0 end
  passes = true
  for i = 1, #asks do
    local a = asks[i]
    if a.kind == 5 then
      a.units = 0
    elseif a.kind == 8 and not a.dry and a.units > 0 and a.wait < turn then
      inLine(a, a.units, now + turn)
      passes = passes and a.ok
    end
  end
  return passes
end

-- leaveLine gives back units of a take after which mine parts were in use, or charges
-- them afterwards. A turn goes to another only if nobody has one behind it. It returns
-- how many came back, too.
leaveLine = function(s, units, taken, tn, tw, tg, whole, mine, leaky, unused)
  local at, used, rest, born, n, w, b, g = unpack('<dddddddd', s, 2)
  if units < 0 then
    local owed = max(used, min(used + min(-units, 2 * whole), 2 * whole))
    if owed - used < -units then rest = 0 end
    return pack('<Bdddddddd', 1, at, owed, rest, born, n, w, b, g), units
  end
  if leaky and not unused then return s, 0 end -- its turn is over
  local same = tn == n and tw == w and tg == g
  if same and used > 0 and used * w - rest == mine - (at - floor(taken / g)) * n then
    return back[1](s, units, at * g, n, w, g), units
  end
  if unused or used > b then return s, 0 end
  return back[1](s, units, taken, tn, tw, tg), units
end
