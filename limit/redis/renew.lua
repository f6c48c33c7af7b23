-- Makes the leases ARGV of requests that are still in progress longer, also those
-- that the store has lost.
for i = 1, #ARGV do redis.call('ZADD', KEYS[1], now + lease, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ceil(lease / 1000) + slack)
return #ARGV
