-- What goes back to a token bucket, or is charged afterwards.
back[1] = function(s, units, taken, tn, tw, tg)
  local at, used, rest, born, n, w, b, g = unpack('<dddddddd', s, 2)
  if units < 0 then
    local owed = max(used, min(used + min(-units, 2 * b), 2 * b))
    if owed - used < -units then rest = 0 end
    used = owed
  elseif tn == n and tw == w and tg == g then
    local give = units * w - max(0, at - floor(taken / g)) * n -- what has refilled since is had already
    if give <= 0 then return s end
    local parts = used * w - rest - give
    if parts <= 0 then
      used, rest = 0, 0
    else
      local r = fmod(parts, w)
      used, rest = (parts - r) / w, 0
      if r > 0 then used, rest = used + 1, w - r end
    end
  else -- taken under other numbers: no more than either have refilled
    local here = max(0, at - floor(taken / g)) * n
    local there = max(0, floor(now / tg) - floor(taken / tg)) * tn
    if here >= units * w or there >= units * tw then return s end
    used = max(0, used - (units - max(up(here, w), up(there, tw))))
    if used == 0 then rest = 0 end
  end
  return pack('<Bdddddddd', 1, at, used, rest, born, n, w, b, g)
end
