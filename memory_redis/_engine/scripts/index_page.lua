-- A page of a user's index, newest first.
--
-- KEYS  1 index (sorted set)
-- ARGV  1 score below which to begin, '+inf' for the top  2 number of entries
-- Reply: the server's time in ms, 1 if there are more below, then conversation id and score by turns

local size = tonumber(ARGV[2])
local page = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', 0, size + 1)
local answer = {clock(''), #page > 2 * size and 1 or 0}
for i = 1, #page, 2 do
  if page[i] ~= '' and #answer < 2 * size + 2 then
    answer[#answer + 1], answer[#answer + 2] = page[i], tonumber(page[i + 1])
  end
end
return answer
