-- Gives back units of one take, or charges more afterwards. KEYS[1] is the counter,
-- ARGV[1] what was taken and what comes back (see settlement in ask.go). The answer
-- is how many units came back, or, in a list, the time, when the edges in ARGV[1] are
-- of another.
local key = KEYS[1]
local kind, flags, give, held, n, w, b, g, at, born, most, span = unpack('<BBdddddddddd', ARGV[1])
local pending, unused = flags % 4 >= 2, flags % 8 >= 4
local whole, ahead
if kind > 7 then whole, ahead = unpack('<dd', ARGV[1], 83) end
local leaky = kind == 8
if whole then kind = 1 end
local tn, tw, tg = n, w, g

if kind == 7 and (now < n or now >= g) then return { now } end

-- bounded returns what may come back of give in this span, when came have by its
-- end, and both after that.
local function bounded(ends, came)
  if give <= 0 or most == 0 or unused then return give, ends, came end
  if now >= ends then
    came = 0
    if kind == 7 then ends = now < tw and tw or tg else ends = now - fmod(now, span) + span end
  end
  if came + give > most then return 0, ends, came end
  return give, ends, came + give
end

if kind == 4 then
  local l = log(key)
  local t = max(now, l.newest)
  drop(l, t, w * g, false)
  if not l.exists then l.born = give < 0 and now or -1 end
  local same = l.born == born
  if same and pending then l.reserved = max(0, l.reserved - held) end
  if give > 0 then
    if not same then return 0 end
    give, l.ends, l.came = bounded(l.ends, l.came)
    save(l, w * g)
    if give > 0 then pull(l, at, give, w * g) end
  elseif give < 0 then
    local owed = max(l.used, min(l.used + min(-give, 2 * b), 2 * b))
    if owed > l.used then push(l, t, owed - l.used, w * g) end
  elseif same then
    save(l, w * g)
  end
  return give
end

local s, side = read(key, kind)
local same = false
if s then
  local life
  life, n, w, b, g = unpack('<ddddd', s, 26)
  same = life == born
  if kind == 7 then n, w, g = tn, tw, tg end -- which are of now
elseif give >= 0 then
  return 0
end
if give > 0 and not same then return 0 end
if side or pending then
  local reserved, since, ends, came = 0, 0, 0, 0
  if side then reserved, since, ends, came = unpack('<dddd', side) end
  if same and pending then reserved = max(0, reserved - held) end
  give, ends, came = bounded(ends, came)
  side = pack('<dddd', reserved, since, ends, came)
end
local _, full
_, _, _, _, s, full = take[kind](s, 0, n, w, b, g)
if give ~= 0 then
  if whole then
    s, give = leaveLine(s, give, at, tn, tw, tg, whole, ahead, leaky, unused)
  else
    s = back[kind](s, give, at, tn, tw, tg)
  end
  _, _, _, _, _, full = take[kind](s, 0, n, w, b, g)
end
write(key, s, side, full)
return give
