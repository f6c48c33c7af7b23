-- A fixed window: used units in the window that begins at the microsecond at.
take[2] = function(s, units, n, w, b, g)
  local start = now - fmod(now, w)
  local at, used, born = start, 0, now
  if s then
    local rest
    at, used, rest, born = unpack('<dddd', s, 2)
    if start > at then at, used = start, 0 end
  end
  local left = max(0, b - used)
  local over = at + w - now
  local ok = units == 0 or units <= left
  local wait, reset = 0, over
  if ok then
    used = used + units
    left = left - units
  elseif units > b then
    wait = -1
  else
    wait = over
  end
  if used <= 0 then reset = 0 end
  return ok, max(0, left), wait, reset, pack('<Bdddddddd', 2, at, used, 0, born, n, w, b, g), used > 0 and over or 0, max(now, at), born
end
