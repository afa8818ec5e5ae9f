-- See whether a conversation has outgrown a limit, and if it has, claim the making of its summary: others
-- go on, and nobody makes a second one meanwhile. Sent again, it claims again. Or give a claim up.
--
-- KEYS  1 messages (list)  2 meta (hash)
-- ARGV  1 id of the claim, 12 bytes  2 ms that it is held, 0 to give it up  3 messages that are too few,
--       -1 for no limit  4 tokens that are too few  5 code of their counter, 0 for no limit
--       6 bytes of records above which a summary is due all the same, if there is more than one
-- Reply: status: 1 claimed, or given up; 0 below the limit, or not there; 2 claimed by another; 3 the tokens
--        of a record are not known; 4 claimed, and above the limit of bytes

local list, meta, hold, counter = KEYS[1], KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[5])
local m = redis.call('HMGET', meta, 'w', 't', 'v', 'f', 'n')
local now, length, held = clock(''), redis.call('LLEN', list), m[1] or ''
local mine = string.sub(held, 1, 12) == ARGV[1]
if hold == 0 then
  if mine then redis.call('HDEL', meta, 'w') end
  return {1}
end
if length == 0 or not m[3] then return {0} end  -- no claim outlives a conversation
local large = length > 1 and tonumber(m[5] or 0) > tonumber(ARGV[6])
if length <= tonumber(ARGV[3]) and not large then return {0} end
if held ~= '' and not mine and number6(held, 13) > now then return {2} end
if counter > 0 and not large then  -- the sum so far is kept: up to which position, and what it was
  local trimmed, sum, from = tonumber(m[2] or 0), 0, 0
  local code, since, upto, so_far = string.match(m[4] or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if tonumber(code) == counter and tonumber(since) == trimmed and tonumber(upto) <= trimmed + length then
    sum, from = tonumber(so_far), tonumber(upto) - trimmed
  end
  while from < length do
    local page = redis.call('LRANGE', list, from, from + 999)
    for _, record in ipairs(page) do
      local kind, _, counted, tokens, bytes = header(record)
      local price = kind and cost(counter, counted, tokens, bytes)
      if not price then return {3} end
      sum = sum + price
    end
    from = from + #page
  end
  redis.call('HSET', meta, 'f', string.format('%d %.0f %.0f %.0f', counter, trimmed, trimmed + length, sum))
  if sum <= tonumber(ARGV[4]) then return {0} end
end
redis.call('HSET', meta, 'w', ARGV[1] .. bytes6(now + hold))
return {large and 4 or 1}
