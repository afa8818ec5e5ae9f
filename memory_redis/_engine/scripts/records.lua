-- What the append script knows of records: put between the prelude and it.

-- A record with the time at which, and the position at which, it is stored. `time` is `now` in bytes.
local function stamped(record, now, time, position)
  if string.byte(record) == 123 then
    return string.format('{"stored_at":%.0f,"seq":%.0f,', now, position) .. string.sub(record, 2)
  end
  return string.sub(record, 1, 1) .. time .. bytes6(position) .. string.sub(record, 2)
end

-- Whether a record belongs to a tool exchange, 'call', 'result' or nil, and its links: a text that
-- has, for each call that it makes or answers, the same eight characters.
local function exchange(record)
  if string.byte(record) ~= 123 then
    local kind, flags = string.byte(record, 18, 19)
    if not flags or math.floor(flags / 4) % 2 == 0 then return nil, '' end
    local links = string.gsub(string.sub(record, 38, 37 + 4 * (string.byte(record, 37) or 0)), '.', function(c)
      return string.format('%02x', string.byte(c))
    end)
    return (kind == 4 or kind == 5) and 'result' or 'call', links
  end
  local links = string.match(record, '^[^d]*"links":"(%x*)"') or string.match(record, '"links":"(%x*)","data"')
  if not links then return nil, '' end
  local name = string.match(record, '"type":"(%a+)"')
  return (name == 'tool' or name == 'function') and 'result' or 'call', links
end

-- Add to an answer the newest of the records from index `start` to `stop` that have room in `bytes`.
local function add_newest(answer, list, start, stop, bytes)
  start = math.max(start, 0)
  local records = stop >= start and redis.call('LRANGE', list, start, stop) or {}
  local first = #records + 1
  while first > 1 and #records[first - 1] <= bytes do
    first = first - 1
    bytes = bytes - #records[first]
  end
  for i = first, #records do answer[#answer + 1] = records[i] end
end

-- Records from index `start` to `stop`, both included, of a list of that length with more behind it.
local function view(list, length, more, start, stop)
  local page = start < length and redis.call('LRANGE', list, start, math.min(stop, length - 1)) or {}
  for i = math.max(start, length), stop do page[#page + 1] = more[i - length + 1] end
  return page
end

-- Bytes of the records from index `start` to before `stop`. Calls among them are noted in `owed`,
-- and struck out when their result is among them too.
local function weigh(list, length, more, start, stop, owed)
  local bytes = 0
  for from = start, stop - 1, 1000 do
    for _, record in ipairs(view(list, length, more, from, math.min(from + 999, stop - 1))) do
      bytes = bytes + #record
      local part, links = exchange(record)
      for link in string.gmatch(links, '........') do owed[link] = part == 'call' or nil end
    end
  end
  return bytes
end

-- The first place at or after `cut` where no result of a call that is `owed` follows. A result that
-- comes more than 1,000 messages after its call is not looked for; readers leave it out.
local function boundary(list, length, more, cut, owed)
  local pending, from, first = {}, cut, cut
  while next(owed) and from - first < 1000 do
    local page = view(list, length, more, from, from + 31)
    for i, record in ipairs(page) do
      local part, links = exchange(record)
      for link in string.gmatch(links, '........') do
        if part == 'call' then
          pending[link] = true
        elseif owed[link] then
          owed[link], cut = nil, from + i
          for other in pairs(pending) do owed[other] = true end
          pending = {}
        else
          pending[link] = nil
        end
      end
    end
    if #page < 32 then break end
    from = from + 32
  end
  return cut
end

-- How many of the oldest records are to go, so that at most `keep` stay, and their bytes.
local function surplus(list, length, more, keep)
  local cut, owed = length + #more - keep, {}
  if keep == 0 or cut <= 0 then return 0, 0 end
  local bytes = weigh(list, length, more, 0, cut, owed)
  if next(owed) then
    local safe = boundary(list, length, more, cut, owed)
    bytes, cut = bytes + weigh(list, length, more, cut, safe, {}), safe
  end
  return cut, bytes
end

-- Give the fields that were set in a hash the values back that they had.
local function restore(meta, set, names, values)
  local old = {}
  for i, name in ipairs(names) do old[name] = values[i] or nil end
  for i = 1, #set, 2 do
    local value = old[set[i]]
    if value then attempt(nil, 'HSET', meta, set[i], value) else attempt(nil, 'HDEL', meta, set[i]) end
  end
end
