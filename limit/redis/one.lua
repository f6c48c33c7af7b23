-- take.lua for the usual request: one claim of an algorithm whose state is a string, to
-- which nothing may come back, and where refusals count one that passes and was not
-- refused lately. It is decided here, which costs less; any other goes on.
do
  local key, record = KEYS[1], KEYS[2]
  local kind, flags, units, n, w, b, g = unpack('<BBddddd', ARGV[1])
  local s, side = read(key, kind)
  if not side and not (record and redis.call('EXISTS', record) == 1) then
    local ok, left, wait, reset, next, full, at, born = take[kind](s, units, n, w, b, g)
    if ok then
      if units > 0 then redis.call('SET', key, next, 'PX', ceil(full / 1000) + slack) end
      return pack('<BBddddd', 49, 1, left, wait, reset, at, born)
    elseif not record then
      if s and redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ceil(full / 1000) + slack) end
      return pack('<BBddddd', 48 + flags % 2, 0, left, wait, reset, at, born)
    end
  end
end
