-- Forgets what a key has used, unless something of it is in progress, and what its
-- refusals have earned: KEYS[2]. ARGV[1] is the byte of its algorithm. The answer
-- says whether nothing is left.
local key, kind = KEYS[1], byte(ARGV[1])
redis.call('DEL', KEYS[2])
if kind == 5 then
  checked(key, 'ZREMRANGEBYSCORE', key, '-inf', now)
  return redis.call('EXISTS', key) == 0 and 1 or 0
end
local reserved = 0
if kind == 4 then
  reserved = log(key).reserved
else
  local s, side = read(key, kind)
  if side then reserved = unpack('<d', side) end
end
if reserved > 0 then return 0 end
redis.call('DEL', key)
return 1
