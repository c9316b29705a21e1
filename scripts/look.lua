-- look.lua reads a job as it is at one instant. It writes nothing.
-- KEYS  as in entry.lua
-- ARGV  1 how many of the newest slots (0: none, -1: all)  2 one further slot by name, or ''
--       3 events of the log wanted for that slot (0: none)  4 '1': the hosts too
-- Returns {time (ms), lock's value or '', its PTTL (ms), fence, meta (flat), slots, hosts (flat), events}
--   slots: {name, beginning (ms), entry (JSON)}, newest first    events: as XRANGE gives them, oldest first
local clock = redis.call('TIME')
local slots = {}

local function add(name)
  local entry, begins = redis.call('HGET', KEYS[3], name), redis.call('ZSCORE', KEYS[4], name)
  if entry and begins then slots[#slots + 1] = { name, begins, entry } end
end

local n = tonumber(ARGV[1])
if n ~= 0 then
  for _, name in ipairs(redis.call('ZREVRANGE', KEYS[4], 0, n > 0 and n - 1 or -1)) do add(name) end
end
local events = {}
if ARGV[2] ~= '' then
  add(ARGV[2])
  if ARGV[3] ~= '0' then
    for _, event in ipairs(redis.call('XRANGE', KEYS[5], '-', '+')) do
      if event[2][4] == ARGV[2] then events[#events + 1] = event end
    end
  end
end
return {
  string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)),
  redis.call('GET', KEYS[1]) or '',
  redis.call('PTTL', KEYS[1]),
  redis.call('GET', KEYS[2]) or '0',
  redis.call('HGETALL', KEYS[6]),
  slots,
  ARGV[4] == '1' and redis.call('HGETALL', KEYS[7]) or {},
  events,
}
