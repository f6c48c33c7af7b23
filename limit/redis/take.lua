-- Takes all claims of a request or none. What is before this says what now is, in
-- microseconds, and how many milliseconds a key outlives what is in it.
--
-- KEYS[i] is the counter of claim i, ARGV[i] what is asked of it (see ask.go). Behind
-- those of all claims stand "p" to take nothing, or "c" for that and to count a refusal,
-- and how long the request has to wait anyway (see lineUp). The answer is a byte for the
-- verdict and 41 for each claim: whether it has room, what is left, how long it has to
-- wait, when more is there, the instant of the take, the life of the key; and for one
-- that lets requests wait 8 more. With -1 left nothing is decided, since the edges of a
-- calendar in ARGV are of another time than that instant.
--
-- All numbers are whole and below 2^53, so doubles hold them exactly.

-- soften shortens the wait of a refusal that only holds because of units that may
-- come back any moment: nobody knows when, so a second.
local function soften(a)
  local reserved, since = unpack('<dd', a.side)
  if reserved <= 0 then return end
  local k = a.kind
  local _, _, _, _, s = take[k](a.state, 0, a.n, a.w, a.b, a.g)
  s = back[k](s, reserved, since, a.n, a.w, a.g)
  if (take[k](s, a.units, a.n, a.w, a.b, a.g)) then a.wait = 1000000 end
end

local function commit(a)
  local side = a.side
  if side or a.pending then
    local reserved, since, ends, came = 0, 0, 0, 0
    if side then reserved, since, ends, came = unpack('<dddd', side) end
    if a.state and unpack('<d', a.state, 26) ~= a.born then reserved = 0 end -- of another life
    if a.pending then reserved, since = reserved + a.units, a.at end
    side = pack('<dddd', reserved, since, ends, came)
  end
  write(a.key, a.next, side, a.full)
end

local claims = #ARGV
while #ARGV[claims] < 42 do claims = claims - 1 end
local mode, given, lost = ARGV[claims + 1], ARGV[claims + 2], false
local peek = mode == 'p' or mode == 'c'
local passes = true
local asks, answers = {}, {}

for i = 1, claims do
  local kind, flags, units, n, w, b, g = unpack('<BBddddd', ARGV[i])
  local a = { key = KEYS[i], kind = kind, dry = flags % 2 == 1, pending = flags % 4 >= 2, units = units, n = n, w = w, b = b, g = g }
  asks[i] = a
  local look = container[kind]
  if look then
    look(a, ARGV[i], units, peek)
  else
    local s, side = read(a.key, kind)
    a.state, a.side = s, side
    a.ok, a.left, a.wait, a.reset, a.next, a.full, a.at, a.born = take[kind](s, units, n, w, b, g)
    if side and a.wait > 1000000 then soften(a) end
  end
  if penalty then penalty.look(a, ARGV[i], claims) end
  if not a.ok then
    lost = lost or a.left < 0
    if not a.dry or lost then passes = false end
  end
end
if (lines or given) and not lost then passes = lineUp(asks, passes, tonumber(given or 0)) end
if penalty and not lost then penalty.count(asks, passes, mode) end

for i = 1, #asks do
  local a = asks[i]
  if passes and a.ok then
    if not peek and a.units > 0 then
      if a.commit then a.commit() else commit(a) end
    end
  else
    if not passes and a.ok then -- what is there, nothing being taken
      if a.look then
        a.look(a, ARGV[i], 0, true)
      else
        a.ok, a.left, a.wait, a.reset = take[a.kind](a.state, 0, a.n, a.w, a.b, a.g)
      end
    end
    if not peek and (a.state or a.exists) and redis.call('PTTL', a.key) == -1 then
      redis.call('PEXPIRE', a.key, ceil(a.full / 1000) + slack)
    end
  end
  answers[i] = pack('<Bddddd', a.ok and 1 or a.blocked and 2 or 0, a.left, a.wait, a.reset, a.at, a.born)
  if a.more then answers[i] = answers[i] .. a.more end
end
return (passes and '1' or '0') .. table.concat(answers)
