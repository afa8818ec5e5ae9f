-- Tell what became of an append.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 append id, 12 bytes  2 ms since it was first sent
-- Reply: status (1 stored, 0 not stored, -2 unknown), version after it, birth, number of messages

local m = redis.call('HMGET', KEYS[2], 'r', 'dr', 'k', 'dk', 'b')
for i = 1, 3, 2 do
  local ring = m[i] or ''
  local at = find(ring, ARGV[1])
  if at then
    local version, count = entry(ring, at)
    return {1, version, m[5], count}
  end
end
if not m[5] then return {0, 0, '', 0} end
local dropped = math.max(tonumber(m[2] or 0), tonumber(m[4] or 0))
local now = clock(m[1] or '')
if forgotten(dropped, tonumber(ARGV[2]), now) then return {-2, 0, m[5], 0} end
return {0, 0, m[5], 0}
