-- What stands in the headers of records, for the scripts that go by it: put between the prelude and them.

-- Type, ms at which it was stored, counter, tokens and bytes of text of a record; nil for one that has
-- no header, or is cut short.
local function header(record)
  if string.byte(record) ~= 1 or #record < 37 then return nil end
  local kind, _, high, low, t1, t2, t3, b1, b2, b3, b4 = string.byte(record, 18, 28)
  return kind, number6(record, 2), high * 256 + low, (t1 * 256 + t2) * 256 + t3,
    ((b1 * 256 + b2) * 256 + b3) * 256 + b4
end

-- The tokens of a record by the counter that is asked for; nil if it was counted by another one. Two
-- counters follow from the bytes of the text.
local function cost(wanted, counter, tokens, bytes)
  if wanted == 1 then return math.floor(bytes / 4) + 1 end
  if wanted == 2 then return math.max(math.floor(bytes / 4), 1) end
  if wanted == counter then return tokens end
  return nil
end

-- A function from an index to the record there, for indexes that never rise.
local function backwards(list, length)
  local page, from = {}, length
  return function(index)
    if index < from then
      from = math.max(index - 31, 0)
      page = redis.call('LRANGE', list, from, index)
    end
    return page[index - from + 1]
  end
end

-- A function that takes records as long as there is room for them: -1 for no limit. It gives true, or
-- false where there is no room, with type and ms; or nil for a record of which that cannot be told.
local function allowance(most, tokens, counter, text)
  return function(record)
    local kind, stored, counted, some, bytes = header(record)
    local price = kind and (tokens < 0 and 0 or cost(counter, counted, some, bytes))
    if not price then return nil end
    if most == 0 or (tokens >= 0 and price > tokens) or (text >= 0 and bytes > text) then return false, kind end
    most, tokens, text = most - 1, tokens - price, text - bytes
    return true, kind, stored
  end
end
