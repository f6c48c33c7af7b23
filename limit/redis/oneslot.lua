-- The usual request of which some may be in progress: there is room for it, and its key
-- was not refused lately. It is taken here, which costs less; any other goes on.
do
  local key, record = KEYS[1], KEYS[2]
  local _, _, units, _, _, b, _, id = unpack('<BBdddddc16', ARGV[1])
  if units == 1 and not (record and redis.call('EXISTS', record) == 1) then
    checked(key, 'ZREMRANGEBYSCORE', key, '-inf', now)
    local left = b - redis.call('ZCARD', key) - 1
    if left >= 0 then
      redis.call('ZADD', key, now + lease, id .. 1)
      redis.call('PEXPIRE', key, lease / 1000 + slack)
      return pack('<BBddddd', 49, 1, left, 0, 0, now, 0)
    end
  end
end
