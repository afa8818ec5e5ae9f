-- Renew the end of a conversation, because it was read or somebody asks for it; or give it an end of its
-- own, which later appends keep.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 expiry policy  2 its ms  3 its most: as for append  4 'r' because of a read; 't' by a touch;
--       'd' to drop what the conversation has of its own; else its own: policy, ms, most, on read
-- Reply: 1 if the conversation is there, 0 if not, or no longer, -1 if its own end would be past, and nothing
--        was changed; 1 if the user's index wants to be told; the end

local list, meta, what = KEYS[1], KEYS[2], ARGV[4]
local m = redis.call('HMGET', meta, 'c', 'i', 'j', 'p', 's')
if redis.call('LLEN', list) == 0 and not m[5] then return {0, 0, 0} end
local own, now = m[4], clock('')
if what == 'r' and own and string.sub(own, -1) == '0' then return {1, 0, 0} end
if what == 'd' then own = nil elseif #what > 1 then own = what end
local ends = ending(own, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), now, tonumber(m[1] or 0))
local over = ends > 0 and ends <= now
if over and #what > 1 then return {-1, 0, 0} end
if #what > 1 then redis.call('HSET', meta, 'p', own) end
if what == 'd' then redis.call('HDEL', meta, 'p') end
local indexed, refresh = tonumber(m[2] or ''), 0
if indexed and stale(indexed, tonumber(m[3] or 0), now, ends) then
  redis.pcall('HSET', meta, 'i', now, 'j', ends)  -- refused when memory is full
  refresh = 1
end
expire(nil, ends, list, meta)
return {over and 0 or 1, refresh, ends}
