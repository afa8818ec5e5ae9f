-- Take conversations out of a user's index, unless they were touched since they were read.
--
-- KEYS  1 index (sorted set)
-- ARGV  conversation id and the score that was read, by turns
-- Reply: entries removed

local removed = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i + 1]) then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return {removed}
