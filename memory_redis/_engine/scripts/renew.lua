-- Renew the end of a conversation, because it was read or somebody asks for it; or give it an end of its
-- own, which later appends keep.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 expiry policy  2 its ms  3 its most: as for append  4 'r' because of a read; 't' by a touch;
--       'd' to drop what the conversation has of its own; else its own: policy, ms, most, on read, where
--       'in' is 'at' so many ms from now
--       5 1 if the user's index has been told the end that an earlier call answered
-- Reply: status; 1 if the user's index wants to be told; the end
--   status  1 renewed, or left alone because reads do not renew it  0 not there, or no longer
--           -1 its own end would be past  2 index first: nothing was changed

local list, meta, what = KEYS[1], KEYS[2], ARGV[4]
local m = redis.call('HMGET', meta, 'c', 'i', 'j', 'p', 's')
if redis.call('LLEN', list) == 0 and not m[5] then return {0, 0, 0} end
local own, now, set, drop = m[4], clock(''), #what > 1, what == 'd'
if what == 'r' and own and string.sub(own, -1) == '0' then return {1, 0, 0} end
if set then
  local rest = string.match(what, '^in (%d+)')
  own = rest and string.format('at %.0f 0 0', now + tonumber(rest)) or what
elseif drop then
  own = nil
end
local ends = ending(own, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), now, tonumber(m[1] or 0))
local over, indexed = ends > 0 and ends <= now, tonumber(m[2] or '')
if over and set then return {-1, 0, 0} end
local due = indexed and not over and stale(indexed, tonumber(m[3] or 0), now, ends)
if due and (set or drop) and ARGV[5] ~= '1' then return {2, 1, ends} end

if set then redis.call('HSET', meta, 'p', own) elseif drop then redis.call('HDEL', meta, 'p') end
local failed = expire(nil, ends, list, meta)
if failed and what ~= 'r' then  -- as by access control; a read goes on without
  if m[4] then attempt(nil, 'HSET', meta, 'p', m[4]) else attempt(nil, 'HDEL', meta, 'p') end
  return failed
end
if due then redis.pcall('HSET', meta, 'i', now, 'j', ends) end  -- refused when memory is full
return {over and 0 or 1, due and #what == 1 and not drop and 1 or 0, ends}
