-- The usual request under a penalty: it passes, and its key was not refused lately. It
-- is taken here, which costs less; any other goes on.
do
  local key = KEYS[1]
  local kind, _, units, n, w, b, g = unpack('<BBddddd', ARGV[1])
  if redis.call('EXISTS', KEYS[2]) == 0 then
    local s, side = read(key, kind)
    local ok, left, wait, reset, next, full, at, born = take[kind](s, units, n, w, b, g)
    if ok then
      if side then
        write(key, next, side, full)
      elseif units > 0 then
        redis.call('SET', key, next, 'PX', ceil(full / 1000) + slack)
      end
      return pack('<BBddddd', 49, 1, left, wait, reset, at, born)
    end
  end
end
