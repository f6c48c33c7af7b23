-- A window of the calendar: used units in the window that begins at the microsecond
-- at and ends at stop. Two windows that follow each other begin, meet and end at
-- from, edge and to; at any other time nothing is decided.
take[7] = function(s, units, from, edge, b, to)
  local start, stop, at, used, ends, born = from, edge, from, 0, 0, now
  if now >= edge then start, stop, at = edge, to, edge end
  if s then at, used, ends, born = unpack('<dddd', s, 2) end
  if now < from or now >= to then return false, -1, 0, 0, s, max(0, ends - now), now, born end
  if start > at then at, used = start, 0 end
  if at > start and ends > stop then stop = ends end -- the clock has gone back
  local left = max(0, b - used)
  local over = stop - now
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
  return ok, max(0, left), wait, reset, pack('<Bdddddddd', 7, at, used, stop, born, from, edge, b, to), used > 0 and over or 0, max(now, at), born
end
