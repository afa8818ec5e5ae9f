-- Renew the end of a conversation, because it was read or somebody asks for it; or give it an end of its
-- own, which later appends keep.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 expiry policy  2 its ms  3 its most: as for append  4 'read'; 'own' for a read that renews only what
--       has own terms; 'touch'; 'drop' what it has of its own; 'set' own terms
--       5 1 if the user's index has been told the end that an earlier call answered
--       6 own terms: policy, ms, most, 1 if reads renew it; 'in' is 'at' so many ms from now
-- Reply: status; 1 if the user's index wants to be told; the end
--   status  1 renewed, or left alone because reads do not renew it  0 not there, or no longer
--           -1 its own end would be past  2 index first: nothing was changed

local list, meta, what = KEYS[1], KEYS[2], ARGV[4]
local m = redis.call('HMGET', meta, 'c', 'i', 'j', 'p', 's')
if redis.call('LLEN', list) == 0 and not m[5] then return {0, 0, 0} end
local own, now, set, drop, read = m[4], clock(''), what == 'set', what == 'drop', what == 'read' or what == 'own'
if read and (own and string.sub(own, -1) == '0' or what == 'own' and not own) then return {1, 0, 0} end
if set then
  local rest = string.match(ARGV[6], '^in (%d+)')
  own = rest and string.format('at %.0f 0 0', now + tonumber(rest)) or ARGV[6]
elseif drop then
  own = nil
end
local ends = ending(own, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), now, tonumber(m[1] or 0), list, meta)
local over, indexed = ends > 0 and ends <= now, tonumber(m[2] or '')
if over and set then return {-1, 0, 0} end
local due = indexed and not over and stale(indexed, tonumber(m[3] or 0), now, ends)
if due and (set or drop) and ARGV[5] ~= '1' then return {2, 1, ends} end

if set then redis.call('HSET', meta, 'p', own) elseif drop then redis.call('HDEL', meta, 'p') end
local failed = expire(nil, ends, list, meta)
if failed and not read then  -- as by access control; a read goes on without
  if m[4] then attempt(nil, 'HSET', meta, 'p', m[4]) else attempt(nil, 'HDEL', meta, 'p') end
  return failed
end
if due then redis.pcall('HSET', meta, 'i', now, 'j', ends) end  -- refused when memory is full
return {over and 0 or 1, due and not set and not drop and 1 or 0, ends}
