-- Append messages to a conversation: all of them or none, once, however often it is sent.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 append id, 12 bytes      2 ms since this append was first sent, 0 at the first time
--       3 ring: 'r' recent appends, 'k' caller's idempotency keys     4 ms that ring is held
--       5 policy: 'any', 'raise' or 'append'   6 expected version   7 its append id   8 its birth
--       9 birth tag to use if a life begins   10 index: '' not indexed, '?' ask, or the tag seen
--      11 expiry policy  12 its ms   13 messages to keep, 0 for all
--      14 1 if a message here belongs to a tool exchange
--      15 most missed messages and  16 most bytes of them to answer with
--      17 1 if the caller sends an id again that may have been settled      18... records
-- Reply: status, version, trimmed, version before it, healed, refresh, conflict, missed count, birth, last, ends,
--        then the newest missed records, or after 'index' the tag.
--   status    1 stored  2 repeated  0 index first  -1 conflict  -2 unknown  -3 cleared meanwhile
--             -4 settled as not stored
--   conflict  0 none  1 moved on  2 edited  3 another life  4 cleared  5 rolled back

local list, meta, id, age = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local field, other = ARGV[3], ARGV[3] == 'r' and 'k' or 'r'
local m = redis.call('HMGET', meta, 'b', 'v', 't', 'l', field, 'd' .. field, 'n', 'c', 'i', 'z', 'e', 'x', 'j', other)
local length = redis.call('LLEN', list)
local ring, created = m[5] or '', tonumber(m[8] or 0)
local now = clock(ring)
local policy, ms = ARGV[11], tonumber(ARGV[12])
if policy == 'fixed' and created > 0 and created + ms <= now then  -- the policy was shortened
  redis.call('DEL', list, meta)
  m, length, ring, created = {}, 0, '', 0
end

local birth, last = m[1] or '', m[4] or ''
local dropped, cleared = tonumber(m[6] or 0), m[10] or ''
local version, trimmed, edited, healed = heal(tonumber(m[2] or 0), tonumber(m[3] or 0), tonumber(m[11] or 0), length)

local ends = ending(policy, ms, now, created > 0 and created or now)
local before, count = version, #ARGV - 17
local function reply(status, conflict, missed)
  return {status, version, trimmed, before, healed, 0, conflict, missed, birth, last, ends}
end

-- 1. A repeat is recognised before anything can refuse it.
local since = field == 'k' and math.min(now - tonumber(ARGV[4]), now - age - 100) or 0
local held = ring
local at = find(held, id, since)
if not at then held = m[14] or '' at = find(held, id, 0) end
local stored, many
if at then stored, many = entry(held, at) end
if many == 0 then
  if ARGV[17] == '0' then return reply(-4, 0, 0) end
  at = nil
elseif at then
  version, count, before = stored, many, stored - many
elseif age > 0 then
  if birth == '' and length > 0 then return reply(-2, 0, 0) end
  if cleared ~= '' and number6(cleared, 13) > now - age + 2 then return reply(-3, 4, 0) end
  if forgotten(dropped, age, now) then return reply(-2, 0, 0) end
end

-- 2. The version that the caller saw against the version there was.
local conflict, missed, seen = 0, 0, tonumber(ARGV[6])
if ARGV[5] ~= 'any' then
  local floor = cleared ~= '' and number6(cleared, 19) or 0
  if ARGV[8] ~= '' and ARGV[8] ~= birth then conflict, missed = 3, before - trimmed
  elseif seen < floor then conflict, missed = 4, before - floor
  elseif seen < edited then conflict, missed = 2, before - edited
  elseif seen < before then conflict, missed = 1, before - seen
  elseif not at and (seen > before or ARGV[7] ~= last) then conflict = 5 end
end
missed = math.max(missed, 0)

local answer = reply(at and 2 or 1, conflict, missed)
if missed > 0 then
  local stop = before - trimmed - 1
  local start = math.max(stop + 1 - math.min(missed, tonumber(ARGV[15])), 0)
  add_newest(answer, list, start, stop, tonumber(ARGV[16]))
end
if at then return answer end
if conflict == 4 or (conflict > 0 and ARGV[5] == 'raise') then answer[1] = -1 return answer end

-- 3. The user's index is written before the first message of a life.
local indexed, told = tonumber(m[9] or ''), tonumber(m[13] or 0)
if ARGV[10] ~= '' and not indexed then
  local tag = cleared == '' and '-' or string.sub(cleared, 1, 12)
  if ARGV[10] ~= tag then
    answer = reply(0, 0, 0)
    answer[12] = tag
    return answer
  end
  indexed, told = now, ends
end

-- 4. Store. The push is the first write: a server that is out of memory refuses it whole.
local size = healed == 1 and weight(list, length) or tonumber(m[7] or 0)
local records = {}
for i = 18, #ARGV do
  records[i - 17] = stamped(ARGV[i], now, version + i - 18)
  size = size + #records[i - 17]
end
for i = 1, count, 1000 do redis.call('RPUSH', list, unpack(records, i, math.min(i + 999, count))) end
version, length = version + count, length + count

local tools, keep = (m[12] == '1' or ARGV[14] == '1') and 1 or 0, tonumber(ARGV[13])
if keep > 0 and length > keep then
  local cut = length - keep
  if tools == 1 then cut = boundary(list, cut) end
  size = size - weight(list, cut)
  redis.call('LTRIM', list, cut, -1)
  trimmed = trimmed + cut
end

-- 5. Remember and expire.
ring, dropped = remember(ring, dropped, id, version, now, count, tonumber(ARGV[4]), field == 'r' and 8 or 0)
if birth == '' then birth = ARGV[9] end
if created == 0 then created = now end
local refresh = indexed and stale(indexed, told, now, ends) and 1 or 0
if refresh == 1 then indexed, told = now, ends end
redis.call('HSET', meta, 'y', 1, 'b', birth, 'v', text(version), 't', text(trimmed), 'l', id, field, ring,
  'd' .. field, text(dropped), 'n', text(size), 'c', text(created), 'x', tools, 'e', text(edited),
  'i', indexed and text(indexed) or '', 'j', text(told))
expire(ends, {list, meta})
answer[2], answer[3], answer[6], answer[9], answer[10] = version, trimmed, refresh, birth, id
return answer
