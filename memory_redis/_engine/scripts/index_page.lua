-- A page of a user's index, newest first.
--
-- KEYS  1 index (sorted set)
-- ARGV  1 score below which to begin, '+inf' for the top  2 number of entries
-- Reply: the server's time in ms, then conversation id and score by turns

local page = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local answer = {clock('')}
for i = 1, #page, 2 do
  answer[i + 1], answer[i + 2] = page[i], tonumber(page[i + 1])
end
return answer
