-- Put a summary in the place of a conversation's oldest messages. A trim like any other: the version
-- stays, and what was appended since the summary was made stays too.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 id of this call, 12 bytes  2 ms since it was first sent  3 ms that ids are held
--       4 the version that the summary was made at: number (6 bytes), append id (12), birth tag (8)
--       5 how many messages of that version to keep  6 how many were trimmed then, -1 if that is not known
--       7 claim to be given up, or ''  8 the summary, unstamped
-- Reply: status (1 compacted, 2 repeated, -1 conflict, -2 unknown, -3 the claim is another's), messages
--        removed, healed, version, birth, last, conflict, as for append

local list, meta, id, age, want = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[4]
local names = {'b', 'v', 't', 'l', 'r', 'dr', 'e', 'z', 'q', 'w', 'n', 's'}
local m = redis.call('HMGET', meta, unpack(names))
local length, ring, dropped = redis.call('LLEN', list), m[5] or '', tonumber(m[6] or 0)
local now, birth, cleared = clock(ring), m[1] or '', m[8] or ''
local version, trimmed, edited, healed = heal(tonumber(m[2] or 0), tonumber(m[3] or 0), tonumber(m[7] or 0), length)
local function reply(status, removed, conflict)
  return {status, removed, healed, version, birth, m[4] or '', conflict}
end

local at = find(ring, id, 0)
if at then
  local _, removed = entry(ring, at)
  return reply(2, removed, 0)
end
if forgotten(dropped, age, now) then return reply(-2, 0, 0) end
local seen, floor = number6(want, 1), cleared ~= '' and number6(cleared, 19) or 0
if string.sub(want, 19) ~= birth then return reply(-1, 0, 3) end
if seen < floor then return reply(-1, 0, 4) end
if seen > version or (seen == version and string.sub(want, 7, 18) ~= m[4]) then return reply(-1, 0, 5) end
local cut = seen - tonumber(ARGV[5]) - trimmed
local when, upto = string.match(m[9] or '0 0', '^(%d+) (%d+)$')  -- the compaction before: its version, and how far
if seen < tonumber(when) or (ARGV[6] ~= '-1' and tonumber(upto) > tonumber(ARGV[6])) or seen < edited or cut < 1 then
  return reply(-1, 0, 2)
end
if ARGV[7] ~= '' and string.sub(m[10] or '', 1, 12) ~= ARGV[7] then return reply(-3, 0, 0) end

local time, _, weigh = bytes6(now), trimming()
local size = healed == 1 and weigh(list, length, {}, 0, length, {}) or tonumber(m[11] or 0)
ring, dropped = remember(ring, dropped, id, version, now, time, cut, tonumber(ARGV[3]), 8)
size = size - weigh(list, length, {}, 0, cut, {})
local set = {'s', stamped(ARGV[8], now, time, trimmed + cut - 1),
  'q', string.format('%.0f %.0f', version, trimmed + cut), 't', trimmed + cut, 'v', version,
  'e', edited, 'n', size, 'r', ring, 'dr', dropped}
redis.call('HSET', meta, unpack(set))  -- first: a server that is out of memory refuses it, and nothing else
local failed = attempt(nil, 'LTRIM', list, cut, -1)
if failed then
  restore(meta, set, names, m)
  return failed
end
if ARGV[7] ~= '' then attempt(nil, 'HDEL', meta, 'w') end
return reply(1, cut, 0)
