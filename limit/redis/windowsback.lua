-- What goes back to the windows, into the one it was taken in.
back[2] = function(s, units, taken)
  local at, used, rest, born, n, w, b, g = unpack('<dddddddd', s, 2)
  if units < 0 then
    used = max(used, min(used + min(-units, 2 * b), 2 * b))
  elseif taken - fmod(taken, w) == at then
    used = max(0, used - units)
  end
  return pack('<Bdddddddd', 2, at, used, rest, born, n, w, b, g)
end

back[7] = function(s, units, taken)
  local at, used, stop, born, n, w, b, g = unpack('<dddddddd', s, 2)
  if units < 0 then
    used = max(used, min(used + min(-units, 2 * b), 2 * b))
  elseif taken >= at then
    used = max(0, used - units)
  end
  return pack('<Bdddddddd', 7, at, used, stop, born, n, w, b, g)
end

back[3] = function(s, units, taken)
  local at, used, before, born, n, w, b, g = unpack('<dddddddd', s, 2)
  if units < 0 then
    used = max(used, min(used + min(-units, 2 * b), 2 * b))
  else
    local t = floor(taken / g)
    local start = t - fmod(t, w)
    if start == at then used = max(0, used - units)
    elseif start == at - w then before = max(0, before - units) end
  end
  return pack('<Bdddddddd', 3, at, used, before, born, n, w, b, g)
end
