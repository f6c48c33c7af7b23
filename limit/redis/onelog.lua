-- The usual request of a sliding log: it passes, more do after it, nothing is too old,
-- the key lives long enough, and no refusals count. It is taken here, which costs less;
-- any other goes on.
do
  local key = KEYS[1]
  local h = not KEYS[2] and redis.pcall('HGET', key, 'h')
  if h and #h == 88 then
    local _, _, units, _, w, b, g = unpack('<BBddddd', ARGV[1])
    local last, used, newest, first, oldest, lives, born = unpack('<ddddddd', h)
    local over = now + w * g
    local left = b - used - units
    if left > 0 and units > 0 and first <= last and newest < now and oldest > now - w * g and lives >= over + slack * 500 then
      redis.call('HSET', key, 'h', pack('<ddd', last + 1, used + units, now) .. sub(h, 25), last + 1, pack('<dd', now, units))
      return pack('<BBddddd', 49, 1, left, 0, over - now, now, born)
    end
  end
end
