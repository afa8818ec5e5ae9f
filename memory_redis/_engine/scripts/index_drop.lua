-- Take conversations out of a user's index, unless they were touched since they were read.
--
-- KEYS  1 index (sorted set)
-- ARGV  conversation id and the score that was read, by turns
-- Reply: entries removed

local index, removed, highest = KEYS[1], 0, tonumber(redis.call('ZSCORE', KEYS[1], '') or 0)
for i = 1, #ARGV, 2 do
  local score = tonumber(redis.call('ZSCORE', index, ARGV[i]) or '')
  if score and score == tonumber(ARGV[i + 1]) then
    removed = removed + redis.call('ZREM', index, ARGV[i])
    highest = math.max(highest, score)
  end
end
if removed > 0 then
  redis.call('ZADD', index, highest, '')
  if redis.call('ZCARD', index) == 1 then redis.call('PEXPIRE', index, 120000) end
end
return {removed}
