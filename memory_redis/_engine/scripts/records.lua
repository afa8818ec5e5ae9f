-- What the writing scripts know of records: put between the prelude and them.

-- A record with the time at which, and the position at which, it is stored. `time` is `now` in bytes.
local function stamped(record, now, time, position)
  if string.byte(record) == 123 then
    return string.format('{"stored_at":%.0f,"seq":%.0f,', now, position) .. string.sub(record, 2)
  end
  return string.sub(record, 1, 1) .. time .. bytes6(position) .. string.sub(record, 2)
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

-- Give the fields that were set in a hash the values back that they had.
local function restore(meta, set, names, values)
  local old = {}
  for i, name in ipairs(names) do old[name] = values[i] or nil end
  for i = 1, #set, 2 do
    local value = old[set[i]]
    if value then attempt(nil, 'HSET', meta, set[i], value) else attempt(nil, 'HDEL', meta, set[i]) end
  end
end
