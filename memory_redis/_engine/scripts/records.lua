-- What the append script knows of records: put between the prelude and it.

-- A record with the time at which, and the position at which, it is stored. `time` is `now` in bytes.
local function stamped(record, now, time, position)
  if string.byte(record) == 123 then
    return string.format('{"stored_at":%.0f,"seq":%.0f,', now, position) .. string.sub(record, 2)
  end
  return string.sub(record, 1, 1) .. time .. bytes6(position) .. string.sub(record, 2)
end

-- Whether a record belongs to a tool exchange: 'call', 'result' or nil.
local function exchange(record)
  if string.byte(record) ~= 123 then
    local kind, flags = string.byte(record, 18, 19)
    if kind == 4 or kind == 5 then return 'result' end
    return flags and flags % 2 == 1 and 'call' or nil
  end
  local name = string.match(record, '"type":%s*"(%a+)"') or ''
  if string.sub(name, 1, 4) == 'tool' or string.sub(name, 1, 8) == 'function' then return 'result' end
  if string.sub(name, 1, 4) == 'Tool' or string.sub(name, 1, 8) == 'Function' then return 'result' end
  if string.find(record, '"tool_calls":%s*%[%s*{') or string.find(record, '"function_call":%s*{') then return 'call' end
  return nil
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

-- The first place at or after `cut` where no tool exchange is cut in half: a result that comes
-- before any new call answers a call that the cut would take away.
local function boundary(list, length, more, cut)
  local from, quiet = cut, 0
  while quiet < 32 do
    local page = view(list, length, more, from, from + 31)
    for i, record in ipairs(page) do
      local part = exchange(record)
      if part == 'call' then return cut end
      quiet = quiet + 1
      if part == 'result' then cut, quiet = from + i, 0 end
    end
    if #page < 32 then return cut end
    from = from + 32
  end
  return cut
end

-- Bytes of the records from index `start` to before `stop`, and whether one of them calls a tool.
local function weigh(list, length, more, start, stop)
  local bytes, calls = 0, false
  for from = start, stop - 1, 1000 do
    for _, record in ipairs(view(list, length, more, from, math.min(from + 999, stop - 1))) do
      bytes = bytes + #record
      calls = calls or exchange(record) == 'call'
    end
  end
  return bytes, calls
end

-- How many of the oldest records are to go, so that at most `keep` stay, and their bytes.
local function surplus(list, length, more, keep)
  local cut = length + #more - keep
  if keep == 0 or cut <= 0 then return 0, 0 end
  local bytes, calls = weigh(list, length, more, 0, cut)
  if calls then
    local safe = boundary(list, length, more, cut)
    bytes, cut = bytes + weigh(list, length, more, cut, safe), safe
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
