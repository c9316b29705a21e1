-- entry.lua is what begin, finish and regain share: it stands in front of each of them, inside the same function.
-- KEYS  1 lock    string, redislock's: run ID, then host:pid
--       2 fence   string: the newest token
--       3 ledger  hash: slot -> entry (JSON)
--       4 slots   sorted set: slot -> its beginning, ms
--       5 log     stream of what happened
--       6 meta    hash: the line, its zone, pause, low-water mark, newest slot, counters
--       7 hosts   hash: host -> its last question (JSON), the roll call
-- ARGV  1 question (JSON); each script lists the fields that it reads
-- Redis keeps what a failed script has written, so whatever can fail comes first and the entry is written last.
local LOCK, FENCE, LEDGER, SLOTS, LOG, META, HOSTS = unpack(KEYS)
local q = cjson.decode(ARGV[1])
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- int prints a number as an integer. Lua's own tostring makes 1.7958852010931e+15 of a large one.
local function int(x) return string.format('%.0f', x) end

local function read(slot)
  local raw = redis.call('HGET', LEDGER, slot)
  return raw and cjson.decode(raw) or nil
end

local function meta()
  local flat, m = redis.call('HGETALL', META), {}
  for k = 1, #flat, 2 do m[flat[k]] = flat[k + 1] end
  return m
end

local function write(slot, e) redis.call('HSET', LEDGER, slot, cjson.encode(e)) end

-- A stop leaves a tombstone in the lock, "stop:<run ID>:...": no longer the holder's lock, and until it expires nobody
-- else's. stopped returns the run ID that was told to stop; run_of, the one that holds or may still be running.
local function stopped(held) return string.sub(held, 1, 5) == 'stop:' and string.sub(held, 6, 37) or nil end

local function holder() return string.sub(redis.call('GET', LOCK) or '', 1, 32) end

local function run_of(held) return stopped(held) or string.sub(held, 1, 32) end

-- is says whether the entry's newest attempt is this one.
local function is(e, run, try) return e and e.run_id == run and e.try == try end

-- note says whether an entry is history only: nothing has begun, so nothing can be lost by writing over it.
local function note(e) return e.state == 'skipped' or e.state == 'paused' or e.state == 'missed' end

local function ended(e, k) return string.sub(e.earlier[k], -1) == '+' end

-- An entry lists its earlier attempts, "<12 digits of the run ID>.<try>.<minute>", with a '+' once the end is known; then
-- it stands also for the tries of that run ID before, whose ends were known. A copy of a question that comes late finds
-- itself in the list, and changes nothing.
local function tag(run, try) return string.sub(run, 1, 12) .. '.' .. int(try) .. '.' end

-- later says whether an item is of a later try of the same run ID, whose end is known.
local function later(a, run, try)
  local at = string.match(a, '^' .. string.sub(run, 1, 12) .. '%.(%d+)%.%d+%+$')
  return at and tonumber(at) > try
end

local function position(e, run, try)
  local t, stands = tag(run, try), nil
  for k, a in ipairs(e.earlier or {}) do
    if string.sub(a, 1, #t) == t then return k end
    if later(a, run, try) then stands = k end
  end
  return stands
end

-- list adds an attempt to the earlier ones. A begin is refused when it is more than an hour off the clock (a host's
-- clock may be wrong by one more), so one that is three hours old can be forgotten.
local function list(e, run, try, at, over)
  local minute, kept = math.floor(at / 60000), {}
  for _, a in ipairs(e.earlier or {}) do
    local of, at, m, known = string.match(a, '^(%w+)%.(%d+)%.(%d+)(%+?)$')
    local covered = over and known == '+' and of == string.sub(run, 1, 12) and tonumber(at) < try
    if tonumber(m) > ms / 60000 - 180 and not covered then kept[#kept + 1] = a end
  end
  kept[#kept + 1] = tag(run, try) .. int(minute) .. (over and '+' or '')
  while #kept > 500 do table.remove(kept, 1) end
  return kept
end

-- keep is how many slots are kept. Who asks by hand, with --date, need not know what the line says.
local function keep()
  local lines = q.zone_from == 'date' and redis.call('HGET', META, 'keep')
  return lines and tonumber(lines) or q.keep
end

-- event appends to the log: what, and the rest as name, value, name, value.
local function event(what, ...)
  redis.call('XADD', LOG, 'MAXLEN', '~', int(keep() * 4), '*', 'event', what, 'slot', q.slot, ...)
end

-- rank puts the slot into its order and forgets the oldest beyond keep. What is forgotten is refused from then on: the
-- low-water mark says how far back the ledger reaches. The holder's slot is never forgotten.
local function rank(current)
  redis.call('ZADD', SLOTS, int(q.begins), q.slot)
  redis.call('HSETNX', META, 'first', q.slot)
  local over = redis.call('ZCARD', SLOTS) - keep()
  if over <= 0 then return end
  local low = tonumber(redis.call('HGET', META, 'low') or '-1')
  local old = redis.call('ZRANGE', SLOTS, 0, math.min(over, 16) - 1, 'WITHSCORES')
  for k = 1, #old, 2 do
    if old[k] ~= q.slot and old[k] ~= current then
      redis.call('ZREM', SLOTS, old[k])
      redis.call('HDEL', LEDGER, old[k])
      low = math.max(low, tonumber(old[k + 1]))
    end
  end
  if low >= 0 then redis.call('HSET', META, 'low', int(low)) end
end

-- span is the time that the slot covers, in seconds before and after its beginning.
local function span() return int((q.begins - q.from) / 1000) .. ',' .. int((q.to - q.begins) / 1000) end

-- shapes goes through the shapes that the job's slots have had (a line, and a zone's offsets), each with the time that
-- its slots cover, from the first to the last.
local function shapes(m)
  local field, value
  return function()
    repeat field, value = next(m, field) until not field or string.sub(field, 1, 6) == 'shape:'
    if field then return string.sub(field, 7), tonumber(string.match(value, '^%d+')), tonumber(string.match(value, '%d+$')) end
  end
end

-- overlap finds an entry of another name, and of another shape, whose time overlaps with that of a slot. Where all slots
-- have one shape there is none, and nothing to read.
local function overlap(m, slot, from, to, own)
  local mixed
  for shape, first, last in shapes(m) do
    if shape ~= own and first < to and from < last then mixed = shape end
  end
  if not mixed then return end
  local month = 32 * 86400000 -- no slot covers more
  local near = redis.call('ZRANGEBYSCORE', SLOTS, int(from - month), int(to + month), 'WITHSCORES')
  for k = 1, #near, 2 do
    local other = near[k] ~= slot and read(near[k])
    local before, after = string.match(other and other.span or '', '^(%d+),(%d+)$')
    local begins = tonumber(near[k + 1])
    if before and begins - before * 1000 < to and from < begins + after * 1000 then
      return { slot = near[k], host = other.host, shape = mixed }
    end
  end
end

-- cover extends the time that this shape's slots cover, and forgets shapes that are wholly below the low-water mark.
local function cover(m)
  local from, to = q.from, q.to
  for shape, first, last in shapes(m) do
    if shape == q.shape then from, to = math.min(from, first), math.max(to, last) end
    if shape ~= q.shape and m.low and last < tonumber(m.low) then redis.call('HDEL', META, 'shape:' .. shape) end
  end
  redis.call('HSET', META, 'shape:' .. q.shape, int(from) .. ' ' .. int(to))
end

-- line keeps the job's line, so that any host can tell what is due.
local function line()
  redis.call('HSET', META, 'every', q.every, 'schedule', q.schedule, 'day_start', q.day_start,
    'attempts', int(q.attempts), 'lease', int(q.lease), 'keep', int(q.keep))
end

-- zone keeps the job's zone, with its offsets in the year of who asks: a country may change its time.
local function zone(m)
  if m.zone ~= q.zone then redis.call('HSET', META, 'zone', q.zone, 'zone_host', q.host, 'zone_since', int(ms)) end
  local offsets = q.offsets[q.zone_year]
  if m.offsets ~= offsets or m.zone_year ~= q.zone_year then
    redis.call('HSET', META, 'offsets', offsets, 'zone_year', q.zone_year)
  end
end

-- attempted is the entry of the attempt that the question tells of, where the ledger does not have it; old is the entry
-- that is there instead, if any.
local function attempted(old)
  local new = { run_id = q.run_id, try = q.try, attempt = math.max(q.attempt, 1), token = q.token, host = q.host,
    pid = q.pid, user = q.user, began = q.began > 0 and q.began or ms, line = q.line, span = span(),
    stale = old and old.stale, extra = old and old.extra }
  if q.machine ~= '' then new.machine = q.machine end
  if q.args ~= '' then new.args = q.args end
  if q.by_hand then new.by_hand = true end
  if old and old.run_id then new.earlier = list(old, old.run_id, old.try, old.began, old.state ~= 'running') end
  return new
end

-- restore writes what a job's first run writes, where Redis has lost it.
local function restore()
  if redis.call('HEXISTS', META, 'attempts') == 0 then
    line()
    if q.zone_from ~= 'date' then zone(meta()) end
  end
  rank(redis.call('HGET', META, 'current'))
  cover(meta())
end
