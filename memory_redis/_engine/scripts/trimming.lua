-- What goes when a conversation is trimmed: put behind records.lua and before the scripts that trim.

-- `oldest`, `weigh` and `exchange`, made by one function, for an append that trims nothing does without.
local function trimming()
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
          if part == 'call' then  -- results that follow are its own, not those of an earlier call of the id
            pending[link], owed[link] = true, nil
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

  -- The ms at which a record was stored, nil if it does not say.
  local function stored_at(record)
    if string.byte(record) == 1 and #record > 36 then return number6(record, 2) end
    return tonumber(string.match(record, '^{"stored_at":(%d+),') or '')
  end

  -- How many of the oldest records are older than `oldest`, or leave at most `room` of `size` bytes when
  -- they are gone. Those that do not say how old they are go with an older one behind them, if it is less
  -- than 1,000 records away.
  local function outdated(list, length, more, oldest, room, size)
    local total, cut, from, step, untold = length + #more, 0, 0, 0, 0
    while from < total - 1 do
      local page = view(list, length, more, from, math.min(from + step, total - 2))
      for i, record in ipairs(page) do
        local at = stored_at(record)
        if size > room or (at and at < oldest) then
          cut = from + i
          untold = 0
        elseif at or oldest == 0 or untold == 1000 then
          return cut
        else
          untold = untold + 1
        end
        size = size - #record
      end
      from, step = from + #page, 31
    end
    return cut
  end

  -- How many of the oldest records are to go, and their bytes.
  local function oldest(list, length, more, keep, age, room, now, size)
    local cut, owed = keep > 0 and length + #more - keep or 0, {}
    if age > 0 or (room > 0 and size > room) then
      cut = math.max(cut, outdated(list, length, more, age > 0 and now - age or 0, room > 0 and room or size, size))
    end
    if cut <= 0 then return 0, 0 end
    local bytes = weigh(list, length, more, 0, cut, owed)
    if next(owed) then
      local safe = boundary(list, length, more, cut, owed)
      bytes, cut = bytes + weigh(list, length, more, cut, safe, {}), safe
    end
    return cut, bytes
  end

  return oldest, weigh, exchange
end

-- How many of the oldest records are to go, and the bytes of those that stay: at most `keep`, none that is
-- older than `age` ms, and at most `room` bytes; 0 is no limit. `size` is what all have now, false if
-- that is to be found out.
local function surplus(list, length, more, keep, age, room, now, size)
  local all = length + #more
  if size and age == 0 and (keep == 0 or all <= keep) and (room == 0 or size <= room) then return 0, size end
  local oldest, weigh = trimming()
  size = size or weigh(list, length, more, 0, all, {})
  local cut, bytes = oldest(list, length, more, keep, age, room, now, size)
  return cut, size - bytes
end
