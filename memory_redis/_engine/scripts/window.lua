-- The newest records that a window's limits allow, found by their headers.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 messages  2 turns  3 tokens  4 code of their counter  5 bytes of text  6 ms that a message may
--       be old: -1 each for no limit  7 how many ms old the first record may be that is shown if it is
--       a system message: -1 for any, '' to show none  8 bytes that the window may have  9... fields of meta
-- Reply: status, ms since 1970, list length, the fields of meta ('' where there is none), then, if the
--        status is 1: index of the window's first record, 1 if the first record of the list comes first,
--        1 if the record before the window comes next, then the window's records
--   status  1 found  0 a record that matters has no header, or another counter's tokens
--           2 more than 10,000 records  -1 more bytes than the window may have
--   The record before the window shows, if it is sound, why the window ends there.

local list, most, turns, age, room = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[8])
local length, now = redis.call('LLEN', list), clock('')
local take = allowance(most, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
local record = backwards(list, length)
local answer = {1, now, length}
for i, value in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 9))) do answer[i + 3] = value or '' end
local function ended(status)
  answer[1] = status
  return answer
end

local first = ARGV[7] ~= '' and redis.call('LRANGE', list, 0, 0)[1]
if first then
  local kind, stored = header(first)
  local kept = kind == 3 and (ARGV[7] == '-1' or stored >= now - tonumber(ARGV[7]))
  local fits = kept and take(first)
  if fits == nil or not kind then return ended(0) end
  first = fits and first
end

local at, stop, seen, window, before = length, first and 1 or 0, 0, {}, nil
while at > stop and seen ~= turns and #window + (first and 1 or 0) ~= most do
  local one = record(at - 1)
  local fits, kind, stored = take(one)
  if fits == nil then return ended(0) end
  if not fits or (age >= 0 and stored < now - age) then before = one break end
  if #window == 10000 then return ended(2) end
  room = room - #one
  if room < 0 then return ended(-1) end
  at, window[#window + 1] = at - 1, one
  if turns >= 0 and kind == 1 then
    local former = at > 0 and (header(record(at - 1)) or -1)
    if former == -1 then return ended(0) end
    if former ~= 1 then seen = seen + 1 end
  end
end
if seen == turns and at > stop then before = record(at - 1) end
for _, value in ipairs({at, first and 1 or 0, before and 1 or 0}) do answer[#answer + 1] = value end
if first then answer[#answer + 1] = first end
if before then answer[#answer + 1] = before end
for i = #window, 1, -1 do answer[#answer + 1] = window[i] end
return answer
