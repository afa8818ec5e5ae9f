-- Shared by every script: it is put before each of them when they are loaded. What only scripts that write
-- or look at records need is in records.lua, trimming.lua and headers.lua.
--
-- Numbers that stand inside binary fields are six bytes, big-endian: enough for milliseconds since
-- 1970 and for any count, and free of struct and bit, which not every server offers to scripts.
--
-- A ring is a string of entries of 28 bytes, oldest first:
--   append id (12) | version after the append (6) | server time in ms (6) | number of messages (4)

local ENTRY = 28
local NO_BIRTH = string.rep('\0', 8)

local function bytes6(n)
  local f = n % 256
  n = (n - f) / 256
  local e = n % 256
  n = (n - e) / 256
  local d = n % 256
  n = (n - d) / 256
  local c = n % 256
  n = (n - c) / 256
  local b = n % 256
  return string.char((n - b) / 256, b, c, d, e, f)
end

local function number6(s, at)
  local a, b, c, d, e, f = string.byte(s, at, at + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

-- The clock of the server, never behind the newest entry that this conversation holds.
local function clock(ring)
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  if #ring > 0 then now = math.max(now, number6(ring, #ring - 9)) end
  return now
end

-- Where the newest entry of an append id begins in a ring, or nil; those from before `since` do not
-- count.
local function find(ring, id, since)
  local found
  local at = string.find(ring, id, 1, true)
  while at do
    if (at - 1) % ENTRY == 0 and number6(ring, at + 18) >= since then found = at end
    at = string.find(ring, id, at + 1, true)
  end
  return found
end

-- Version and number of messages of an entry; no message for an append that was settled as not stored.
local function entry(ring, at)
  if not at then return nil end
  return number6(ring, at + 12), number6('\0\0' .. string.sub(ring, at + 24, at + 27), 1)
end

-- A ring with one entry more, without those that are too old or too many; and the time of the
-- newest entry that was ever dropped, for a repeat that is older than this must not be guessed.
local function remember(ring, dropped, id, version, now, time, count, hold, least)
  ring = ring .. id .. bytes6(version) .. time .. string.sub(bytes6(count), 3)
  local cut = math.max(0, #ring - 256 * ENTRY)
  while #ring - cut > least * ENTRY and number6(ring, cut + 19) < now - hold do cut = cut + ENTRY end
  if cut > 0 then
    dropped = math.max(dropped, number6(ring, cut - 9))
    ring = string.sub(ring, cut + 1)
  end
  return ring, dropped
end

-- Version, trimmed count and version of the last edit as they truly are, should one half of a
-- conversation have been evicted or edited by hand. Messages that vanished count as an edit.
local function heal(version, trimmed, edited, length)
  if version - trimmed == length then return version, trimmed, edited, 0 end
  if length < version - trimmed then
    version = version + 1
    edited = version
  end
  version = math.max(version, trimmed + length)
  return version, version - length, edited, 1
end

-- Whether an append that is sent again, and is not in the ring, may have been dropped from it.
-- A repeat spends time on the wire, hence the margin.
local function forgotten(dropped, age, now)
  return age > 0 and dropped > 0 and dropped >= now - age - 100
end

-- A command after the first write, where an error can no longer mean that nothing was done: the
-- error, or nil; nothing is called after an earlier one.
local function attempt(failed, ...)
  if failed then return failed end
  local answer = redis.pcall(...)
  return type(answer) == 'table' and answer.err and answer or nil
end

-- The instant at which a conversation ends, 0 for never. Policies: 'none', 'idle' (ms from now, but at
-- most so many ms from its first message), 'fixed' (ms from its first message), 'at' (ms since 1970)
-- or 'keep' (as it is). `own` is the conversation's own: policy, ms, most, and 1 if reads renew it.
-- `created` is 0 for one that begins now.
local function ending(own, policy, ms, most, now, created, list, meta)
  if own then
    policy, ms, most = string.match(own, '^(%a+) (%d+) (%d+)')
    ms, most = tonumber(ms), tonumber(most)
  end
  local goes_on = created > 0
  if not goes_on then created = now end
  if policy == 'idle' then return most > 0 and math.min(now + ms, created + most) or now + ms end
  if policy == 'fixed' then return created + ms end
  if policy == 'at' then return ms end
  local left = policy == 'keep' and redis.call('PTTL', list) or -1
  if left == -2 and goes_on then left = redis.call('PTTL', meta) end  -- all is summarised, or trimmed
  return left >= 0 and now + left or 0
end

-- Whether a user's index has to hear of a conversation again: a minute after it last did, or when
-- the conversation now ends so much later that the index could end before it.
local function stale(indexed, told, now, ends)
  return now - indexed > 60000 or (told > 0 and (ends == 0 or ends > told + 60000))
end

local function expire(failed, at, list, meta)
  if at > 0 then
    return attempt(attempt(failed, 'PEXPIREAT', list, at), 'PEXPIREAT', meta, at)
  end
  return attempt(attempt(failed, 'PERSIST', list), 'PERSIST', meta)
end
