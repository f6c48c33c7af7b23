-- Requests that wait for their turn, as one claim of several; see turn.lua.

-- askFor asks for units of a, whose request waits until the microsecond turn anyway.
local function askFor(a, units, turn)
  local parts
  a.ok, a.left, a.wait, a.reset, a.next, a.full, a.at, a.born, parts =
    inLine(a.state, units, a.n, a.w, a.b, a.g, a.whole, a.extra, a.kind == 8, turn)
  a.more = pack('<d', parts)
end

container[8] = function(a, arg, units)
  if not a.look then
    a.look = container[8]
    a.whole, a.extra = unpack('<dd', arg, 43)
    a.state, a.side = read(a.key, 1)
    lines = true
  end
  askFor(a, units)
  if a.ok or a.wait <= 1000000 or not a.side then return end
  -- As soften in take.lua; but while somebody waits nothing comes back.
  local reserved, since = unpack('<dd', a.side)
  local at, used = unpack('<dd', a.next, 2)
  if reserved <= 0 or used > a.b and floor(since / a.g) < at then return end
  local s = back[1](a.next, reserved, since, a.n, a.w, a.g)
  if (inLine(s, units, a.n, a.w, a.b, a.g, a.whole, a.extra, a.kind == 8)) then a.wait = 1000000 end
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
      askFor(a, a.units, now + turn)
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
