-- What repeated refusals earn (limit.Penalty). A record is the state of the token
-- bucket that refusals are counted in, and three doubles: how often the next block is
-- doubled, when the last one ends, and since when there is quiet. KEYS has those of the
-- claims that have a penalty behind all counters; its numbers end the ARGV of a claim.
local records = 0

-- keep stores a record for as long as anything of it is worth remembering.
local function keep(p)
  local _, _, _, _, s, life = take[1](p.refusals, 0, p.n, p.w, p.b, p.g)
  life = max(life, p.ends - now)
  if p.level > 0 then life = max(life, p.quiet + p.level * p.max - now) end
  redis.call('SET', p.key, s .. pack('<ddd', p.level, p.ends, p.quiet), 'PX', ceil(life / 1000) + slack)
end

-- block refuses a for so long, or until there is room, if that is later.
local function block(a, long)
  local wait = long
  if not a.ok then
    wait = a.wait
    if wait >= 0 then wait = max(wait, long) end
  end
  a.ok, a.left, a.wait, a.reset, a.at, a.blocked = false, 0, wait, max(0, wait), long, true
end

-- refused counts a refusal. Of a key of which nothing is kept it does not.
local function refused(a)
  local p = a.penalty
  if not p or a.blocked or not (a.state or a.exists or p.exists) then return end
  local ok, _, _, _, s = take[1](p.refusals, 1, p.n, p.w, p.b, p.g)
  p.refusals = s
  if p.level > 0 and now > p.quiet then p.level = max(0, p.level - floor((now - p.quiet) / p.max)) end
  p.quiet = max(p.quiet, now)
  if not ok then
    local long = p.block
    for _ = 1, p.level do long = min(2 * long, p.max) end
    if long < p.max then p.level = p.level + 1 end
    p.ends = now + long
    p.quiet = p.ends
    block(a, long)
  end
  keep(p)
end

penalty = {
  -- look sees whether a is blocked.
  look = function(a, arg, claims)
    if byte(arg, 2) < 8 then return end
    records = records + 1
    if a.left < 0 then return end
    local p = { key = KEYS[claims + records], level = 0, ends = 0, quiet = 0 }
    p.n, p.w, p.b, p.g, p.block, p.max = unpack('<dddddd', arg, #arg - 47)
    a.penalty = p
    local r = checked(p.key, 'GET', p.key)
    if not r then return end
    if byte(r) ~= 1 or #r ~= plain + 24 then
      redis.call('DEL', p.key)
      return
    end
    p.exists, p.refusals = true, sub(r, 1, plain)
    p.level, p.ends, p.quiet = unpack('<ddd', r, plain + 1)
    if now < p.ends then block(a, p.ends - now) end
    if redis.call('PTTL', p.key) == -1 then keep(p) end
  end,
  -- count counts the refusals of a request that ends with them, and of one that
  -- passes those of its dry runs. One that is blocked counts nowhere.
  count = function(asks, passes, mode)
    if mode == 'p' or mode == 'c' and passes then return end
    for i = 1, #asks do
      if asks[i].blocked and not asks[i].dry then return end
    end
    for i = 1, #asks do
      local a = asks[i]
      if not a.ok and a.dry == passes then refused(a) end
    end
  end,
}
