-- The usual request of several claims: all pass, of algorithms whose state is a string,
-- and nothing may come back to any. It is taken here, which costs less; any other goes
-- on.
do
  local states, nexts, lives, answers, usual = redis.call('MGET', spread(KEYS)), {}, {}, { '1' }, true
  for i = 1, #KEYS do
    local kind, _, units, n, w, b, g = unpack('<BBddddd', ARGV[i])
    local s = states[i]
    if s and (#s ~= plain or byte(s) ~= kind) then usual = false break end
    local ok, left, wait, reset, next, full, at, born = take[kind](s, units, n, w, b, g)
    if not ok or units == 0 then usual = false break end
    nexts[i], lives[i], answers[i + 1] = next, ceil(full / 1000) + slack, pack('<Bddddd', 1, left, wait, reset, at, born)
  end
  if usual then
    for i = 1, #KEYS do redis.call('SET', KEYS[i], nexts[i], 'PX', lives[i]) end
    return table.concat(answers)
  end
end
