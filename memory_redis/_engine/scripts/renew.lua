-- Renew the end of a conversation because it was read.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 expiry policy  2 its ms
-- Reply: 1 if the conversation exists, 1 if the user's index wants to be told, its new end

if redis.call('LLEN', KEYS[1]) == 0 then return {0, 0, 0} end
local m = redis.call('HMGET', KEYS[2], 'c', 'i', 'j')
local now = clock('')
local ends = ending(ARGV[1], tonumber(ARGV[2]), now, tonumber(m[1] or 0))
local indexed, refresh = tonumber(m[2] or ''), 0
if indexed and stale(indexed, tonumber(m[3] or 0), now, ends) then
  redis.pcall('HSET', KEYS[2], 'i', now, 'j', ends)  -- refused when memory is full
  refresh = 1
end
expire(nil, ends, KEYS[1], KEYS[2])
return {1, refresh, ends}
