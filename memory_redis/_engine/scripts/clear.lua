-- Remove a conversation's messages. Its meta stays for a while, without content, so that a repeat
-- of an older append, or a turn that was loaded before, does not bring anything back.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 id of this call, 12 bytes  2 ms since it was first sent  3 birth tag if there is none
--       4 ms that the meta stays
-- Reply: status (1 cleared, 2 repeated, -2 unknown), messages removed, healed, version, birth, id

local list, meta, id, age = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local m = redis.call('HMGET', meta, 'b', 'v', 't', 'r', 'dr', 'k', 'dk', 'e')
local length = redis.call('LLEN', list)
local birth, ring, dropped = m[1] or ARGV[3], m[4] or '', tonumber(m[5] or 0)
local now = clock(ring)

local at = find(ring, id, 0)
if at then
  local version, removed = entry(ring, at)
  return {2, removed, 0, version, birth, id}
end
if forgotten(dropped, age, now) then return {-2, 0, 0, 0, birth, id} end

local version, _, _, healed = heal(tonumber(m[2] or 0), tonumber(m[3] or 0), tonumber(m[8] or 0), length)
version = version + 1
ring, dropped = remember(ring, dropped, id, version, now, bytes6(now), length, tonumber(ARGV[4]), 8)
redis.call('UNLINK', list, meta)
redis.call('HSET', meta, 'y', 1, 'b', birth, 'v', version, 't', version, 'l', id, 'r', ring,
  'dr', dropped, 'k', m[6] or '', 'dk', m[7] or 0, 'e', version, 'z', id .. bytes6(now) .. bytes6(version))
redis.call('PEXPIREAT', meta, now + tonumber(ARGV[4]))
return {1, length, healed, version, birth, id}
