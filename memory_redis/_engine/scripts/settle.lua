-- Tell what became of an append, for good: one that is not stored cannot be stored any more by a
-- request that is still on its way.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 append id, 12 bytes  2 ms since it was first sent  3 ms that idempotency keys are held
--       4 ms that the answer stays in force, 0 to leave no mark
-- Reply: status (1 stored, 0 not stored, -2 unknown), version after it, birth, number of messages

local list, meta, id, hold = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[4])
local m = redis.call('HMGET', meta, 'r', 'dr', 'k', 'dk', 'b', 'v')
local ring, birth, now = m[1] or '', m[5] or '', clock(m[1] or '')
for i = 1, 3, 2 do
  local at = find(m[i] or '', id, i == 3 and now - tonumber(ARGV[3]) or 0)
  if at then
    local version, count = entry(m[i], at)
    return {count > 0 and 1 or 0, version, birth, count}
  end
end
local dropped = math.max(tonumber(m[2] or 0), tonumber(m[4] or 0))
if birth == '' and redis.call('LLEN', list) > 0 or forgotten(dropped, tonumber(ARGV[2]), now) then
  return {-2, 0, birth, 0}
end
if hold > 0 then
  ring, dropped = remember(ring, tonumber(m[2] or 0), id, tonumber(m[6] or 0), now, bytes6(now), 0, hold, 8)
  redis.call('HSET', meta, 'r', ring, 'dr', dropped)
  if birth == '' then redis.call('PEXPIREAT', meta, now + hold) end
end
return {0, 0, birth, 0}
