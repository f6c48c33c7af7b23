-- A sliding log: a hash of entries (instant, units) by number, and under 'h' the
-- number of the newest, the units of all, the newest instant, the number of the oldest,
-- an instant before which no entry is, how long the key lives at least, the life of the
-- key, and the side of a state. An entry may have given all its units back.
local function log(key)
  local h = checked(key, 'HGET', key, 'h')
  if not h or #h ~= 88 then
    if h then redis.call('DEL', key) end
    return { key = key, first = 1, last = 0, used = 0, newest = 0, born = now, reserved = 0, since = 0, ends = 0, came = 0, oldest = 0, lives = 0 }
  end
  local last, used, newest, first, oldest, lives, born, ends, reserved, since, came = unpack('<ddddddddddd', h)
  return { key = key, exists = true, first = first, last = last, used = used, newest = newest, born = born,
    reserved = reserved, since = since, ends = ends, came = came, oldest = oldest, lives = lives }
end

-- save writes l, with the entry e as number i if there is one. To tell the key how
-- long to live costs as much, so it is left at that while between a half and all of
-- the slack is left.
local function save(l, w, i, e)
  local ends = max(l.newest + w, l.ends)
  local left = l.lives - ends
  if left < slack * 500 or left > slack * 1000 then l.lives = ends + slack * 1000 else left = nil end
  local h = pack('<ddddddddddd', l.last, l.used, l.newest, l.first, l.oldest, l.lives, l.born, l.ends, l.reserved, l.since, l.came)
  if i then redis.call('HSET', l.key, 'h', h, i, e) else redis.call('HSET', l.key, 'h', h) end
  if left then redis.call('PEXPIRE', l.key, ceil((ends - now) / 1000) + slack) end
end

local function entry(l, i)
  local e = redis.call('HGET', l.key, i)
  if not e then return 0, 0 end
  return unpack('<dd', e)
end

-- drop takes off what is w old at t; with keep it does so in l alone.
local function drop(l, t, w, keep)
  if l.oldest > t - w and l.first <= l.last then return end
  local from = l.first
  if l.newest <= t - w then
    l.used, l.first = 0, l.last + 1
    if l.ends <= now then -- nothing is worth remembering
      if l.exists and not keep then redis.call('DEL', l.key) end
      l.first, l.last, l.reserved, l.lives, l.exists = 1, 0, 0, 0, false
      return
    end
  end
  while l.first <= l.last do
    local at, units = entry(l, l.first)
    if at > t - w and units > 0 then
      l.oldest = at
      break
    end
    l.used = max(0, l.used - units)
    l.first = l.first + 1
  end
  if keep or l.first == from then return end
  for i = from, l.first - 1, 100 do
    local old = {}
    for j = i, min(i + 99, l.first - 1) do old[#old + 1] = j end
    redis.call('HDEL', l.key, spread(old))
  end
  save(l, w)
end

-- push adds units at the instant t.
local function push(l, t, units, w)
  local sum = units
  if l.first > l.last then
    l.oldest = t
    l.last = l.last + 1
  elseif l.newest == t then
    local _, there = entry(l, l.last)
    sum = sum + there
  else
    l.last = l.last + 1
  end
  l.used, l.newest = l.used + units, t
  save(l, w, l.last, pack('<dd', t, sum))
end

-- pull gives back up to units of the entry of the instant t.
local function pull(l, t, units, w)
  local lo, hi = l.first, l.last + 1
  while lo < hi do
    local m = floor((lo + hi) / 2)
    local at = entry(l, m)
    if at < t then lo = m + 1 else hi = m end
  end
  if lo > l.last then return end
  local at, there = entry(l, lo)
  if at ~= t then return end
  local n = min(units, there)
  l.used = l.used - n
  if lo < l.last or n < there then
    save(l, w, lo, pack('<dd', t, there - n))
    return
  end
  repeat -- the newest has units
    redis.call('HDEL', l.key, l.last)
    l.last = l.last - 1
    l.newest, there = entry(l, l.last)
  until l.last < l.first or there > 0
  save(l, w)
end

-- oldest returns how long until the k-th oldest unit is too old.
local function oldest(l, k, t, w)
  for i = l.first, l.last do
    local at, n = entry(l, i)
    k = k - n
    if k <= 0 then return at + w - now end
  end
  return t + w - now
end

-- logged asks for units of l, which has been brought up to t.
local function logged(l, units, t, w, b)
  local left = max(0, b - l.used)
  local ok, wait, taken = units <= left or units == 0, 0, units
  if not ok then
    taken = 0
    if units > b then
      wait = -1
    else
      wait = oldest(l, l.used + units - b, t, w)
      if wait > 1000000 and l.reserved > 0 and now - l.since < w and l.used - l.reserved + units <= b then wait = 1000000 end
    end
  end
  left = max(0, left - taken)
  local used, reset = l.used + taken, 0
  if left > 0 and used > 0 then
    reset = (taken > 0 and t or l.newest) + w - now
  elseif used > 0 then
    reset = oldest(l, used - b + 1, t, w)
  end
  return ok, left, wait, reset
end

container[4] = function(a, _, units, keep)
  local w = a.w * a.g
  local l = log(a.key)
  local t = max(now, l.newest)
  drop(l, t, w, keep)
  if not l.exists then l.born = now end
  a.look, a.exists = container[4], l.exists
  a.at, a.born, a.full = t, l.born, max(l.newest + w, l.ends) - now
  a.ok, a.left, a.wait, a.reset = logged(l, units, t, w, a.b)
  a.commit = function()
    if a.pending then l.reserved, l.since = l.reserved + units, t end
    push(l, t, units, w)
  end
end
