-- Requests in progress: a sorted set of leases by the microsecond each ends at,
-- unless its gateway makes it longer.
container[5] = function(a, arg, units, keep)
  local used
  if keep then
    used = checked(a.key, 'ZCOUNT', a.key, string.format('(%.0f', now), '+inf') or 0
  else
    checked(a.key, 'ZREMRANGEBYSCORE', a.key, '-inf', now)
    used = redis.call('ZCARD', a.key)
  end
  a.look, a.exists, a.at, a.born, a.full, a.reset = container[5], used > 0, now, 0, lease, 0
  local left = max(0, a.b - used)
  a.ok, a.left, a.wait = units == 0 or units <= left, left, 0
  if a.ok then
    a.left = left - units
    if units == 0 then a.left = left end
  elseif units > a.b then
    a.wait = -1
  else
    a.wait = 1000000
  end
  a.commit = function()
    local id = sub(arg, 43, 58)
    for i = 1, units do redis.call('ZADD', a.key, now + lease, id .. i) end
    redis.call('PEXPIRE', a.key, ceil(lease / 1000) + slack)
  end
end
