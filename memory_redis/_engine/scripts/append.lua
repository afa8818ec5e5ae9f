-- Append messages to a conversation: all of them or none, once, however often it is sent.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 append id, 12 bytes      2 ms since this append was first sent, 0 at the first time
--       3 ring: 'r' recent appends, 'k' caller's idempotency keys     4 ms that ring is held
--       5 '' to append to whatever there is; or the version that is expected: 'r' to refuse another, 'a' to
--         append all the same, 's' to do so in the same life; number (6 bytes), append id (12), birth
--         tag (8)
--       6 birth tag to use if a life begins   7 index: '' not indexed, '?' ask, or the tag seen
--       8 expiry policy  9 its ms  10 ms after the first message at which it ends at the latest, or 0
--      11 messages to keep  12 ms that they may be old  13 bytes that they may have: 0 for any
--      14 1 if the caller sends an id again that may have been settled     15... records, unstamped
-- Reply: 1, version, birth, end in ms since 1970 or 0, if the append was stored and nothing else is
--        to be told; otherwise status, version, birth, end, trimmed, version before it, healed,
--        refresh, conflict, missed count, last, then the newest missed records, or the index tag
--   status    1 stored  2 repeated  0 index first  -1 conflict  -2 unknown  -3 cleared meanwhile
--             -4 settled as not stored
--   conflict  0 none  1 moved on  2 edited  3 another life  4 cleared  5 rolled back

local list, meta, id, age = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local field, forgets, other = ARGV[3], 'd' .. ARGV[3], ARGV[3] == 'r' and 'k' or 'r'
local function names() return 'b', 'v', 't', 'l', field, forgets, 'n', 'c', 'i', 'z', 'e', 'j', other, 'p' end
local m = redis.call('HMGET', meta, names())
local length = redis.call('LLEN', list)
local ring, created = m[5] or '', tonumber(m[8] or 0)
local now, policy, ms, most = clock(ring), ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local ends = ending(m[14], policy, ms, most, now, created, list, meta)
if created > 0 and ends > 0 and ends <= now then  -- the policy was shortened
  redis.call('DEL', list, meta)
  m, length, ring, created, ends = {}, 0, '', 0, ending(nil, policy, ms, most, now, 0, list, meta)
end

local birth, last, cleared = m[1] or '', m[4] or '', m[10] or ''
local dropped, count = tonumber(m[6] or 0), #ARGV - 14
local version, trimmed, edited, healed = heal(tonumber(m[2] or 0), tonumber(m[3] or 0), tonumber(m[11] or 0), length)
local before, answer = version, nil
local function reply(status, conflict, missed, refresh)
  return {status, version, birth, ends, trimmed, before, healed, refresh or 0, conflict, missed, last}
end

-- 1. A repeat is recognised before anything can refuse it.
local since = field == 'k' and math.min(now - tonumber(ARGV[4]), now - age - 100) or 0
local held, at = ring, find(ring, id, since)
if not at then held = m[13] or '' at = find(held, id, 0) end
local stored, many = entry(held, at)
if many == 0 then
  if ARGV[14] == '0' and field == 'r' then return reply(-4, 0, 0) end  -- a key knows its repeats
  at = nil
elseif at then
  version, count, before = stored, many, stored - many
elseif age > 0 then
  if birth == '' and length > 0 then return reply(-2, 0, 0) end
  if cleared ~= '' and number6(cleared, 13) > now - age + 2 then return reply(-3, 4, 0) end
  if forgotten(dropped, age, now) then return reply(-2, 0, 0) end
end

-- 2. The version that the caller saw against the version there was.
local conflict, missed, want, rule = 0, 0, ARGV[5], string.sub(ARGV[5], 1, 1)
if want ~= '' then
  local seen, floor = number6(want, 2), cleared ~= '' and number6(cleared, 19) or 0
  local life = string.sub(want, 20)
  if life ~= NO_BIRTH and life ~= birth then conflict, missed = 3, before - trimmed
  elseif seen < floor then conflict, missed = 4, before - floor
  elseif seen < edited then conflict, missed = 2, before - edited
  elseif seen < before then conflict, missed = 1, before - seen
  elseif not at and (seen > before or last ~= '' and string.sub(want, 8, 19) ~= last) then conflict = 5 end
end
if at or conflict > 0 then
  answer = reply(at and 2 or 1, conflict, math.max(missed, 0))
  add_newest(answer, list, before - trimmed - math.min(missed, 100), before - trimmed - 1, 1048576)
end
if at then return answer end
if conflict == 4 or rule == 's' and conflict == 3 or rule == 'r' and conflict > 0 then answer[1] = -1 return answer end

-- 3. The user's index is written before the first message of a life.
local indexed, told = tonumber(m[9] or ''), tonumber(m[12] or 0)
if ARGV[7] ~= '' and not indexed then
  local tag = cleared == '' and '-' or string.sub(cleared, 1, 12)
  if ARGV[7] ~= tag then
    answer = reply(0, 0, 0)
    answer[12] = tag
    return answer
  end
end

-- 4. All that only reads, and what is to be written.
local records, time, size = {}, bytes6(now), tonumber(m[7] or 0)
for i = 15, #ARGV do
  local record = stamped(ARGV[i], now, time, version + i - 15)
  records[i - 14], size = record, size + #record
end
version = version + count
local keep, old, room = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local cut, left = surplus(list, length, records, keep, old, room, now, healed == 0 and size)
local grown, forgot = remember(ring, dropped, id, version, now, time, count, tonumber(ARGV[4]), field == 'r' and 8 or 0)
local set = {'v', version, 'l', id, field, grown, 'n', left}
local function put(name, value) set[#set + 1], set[#set + 2] = name, value end
if created == 0 or not m[1] then
  if birth == '' then birth = ARGV[6] end
  put('y', '1') put('b', birth) put('c', now)
end
if forgot ~= dropped then put(forgets, forgot) end
if cut > 0 or healed == 1 then put('t', trimmed + cut) put('e', edited) end
local refresh = indexed and stale(indexed, told, now, ends) and 1 or 0
if refresh == 1 or (ARGV[7] ~= '' and not indexed) then put('i', now) put('j', ends) end

-- 5. Store. The push is the first write: a server that is out of memory refuses it whole. Whatever
-- is refused after it, as by access control, takes it back.
for i = 1, count, 1000 do redis.call('RPUSH', list, unpack(records, i, math.min(i + 999, count))) end
local refused = attempt(expire(nil, ends, list, meta), 'HSET', meta, unpack(set))
local failed = cut > 0 and attempt(refused, 'LTRIM', list, cut, -1) or refused
if failed then
  local kept = attempt(nil, 'RPOP', list, count) and attempt(nil, 'LTRIM', list, 0, -(count + 1))
  if not refused then restore(meta, set, {names()}, m) end
  return kept and reply(-2, 0, 0) or failed
end
if not m[1] then expire(nil, ends, list, meta) end
if conflict == 0 and healed == 0 and refresh == 0 then return {1, version, birth, ends} end
answer = answer or reply(1, 0, 0)
answer[2], answer[3], answer[5], answer[8], answer[11] = version, birth, trimmed + cut, refresh, id
return answer
