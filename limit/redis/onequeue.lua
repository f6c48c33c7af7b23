-- The same as one.lua for requests that may have to wait.
do
  local key, record = KEYS[1], KEYS[2]
  local kind, flags, units, n, w, b, g, whole, extra = unpack('<BBddddddd', ARGV[1])
  local s, side = read(key, 1)
  if not side and not (record and redis.call('EXISTS', record) == 1) then
    local ok, left, wait, reset, next, full, at, born, parts = inLine(s, units, n, w, b, g, whole, extra, kind == 8)
    if ok then
      if units > 0 then redis.call('SET', key, next, 'PX', ceil(full / 1000) + slack) end
      return pack('<BBdddddd', 49, 1, left, wait, reset, at, born, parts)
    elseif not record then
      if s and redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ceil(full / 1000) + slack) end
      return pack('<BBdddddd', 48 + flags % 2, 0, left, wait, reset, at, born, parts)
    end
  end
end
