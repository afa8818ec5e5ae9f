-- Enter a conversation in its user's index, or bring it to the top.
--
-- KEYS  1 index (sorted set: conversation id by the ms of its last activity)
-- ARGV  1 conversation id  2 the conversation's end in ms since 1970, 0 for never
-- Reply: its score. No score is ever given twice, so that a page can begin below one, and an entry
--        that was touched meanwhile differs from what a reader saw. The empty id, which no
--        conversation has, keeps the highest score of those that were dropped.
--
-- The index outlives the conversation by as long as that has left now, and two minutes: should the next
-- one who renews the conversation die before telling the index, it is found all the same.

local index, ends = KEYS[1], tonumber(ARGV[2])
local top = redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')
local now, left = clock(''), redis.call('PTTL', index)
local score = math.max(now, tonumber(top[2] or 0) + 1)
redis.call('ZADD', index, score, ARGV[1])
local lasts = ends + math.max(ends - now, 0) + 120000
if ends == 0 then
  redis.call('PERSIST', index)
elseif left == -2 or (left >= 0 and now + left < lasts) then
  redis.call('PEXPIREAT', index, lasts)
end
return {score}
