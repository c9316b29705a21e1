-- look.lua reads a job as it is at one instant. It writes nothing, and sends no more than will be shown: of most slots
-- the few facts that their state follows from.
-- KEYS  as in entry.lua
-- ARGV  1 newest slots wanted in brief (-1: all)   2 how many of them with their entries (-1: all)
--       3 one further slot by name, with its entry, its events and the job's own, or ''   4 '1': the hosts too   5 '1': the entry that ended last, too
-- Returns {time (ms), lock's value or '', its PTTL (ms), fence or '', meta (flat), briefs, entries (flat: slot, JSON),
--   oldest slot or '', beginning of the job's first slot (ms) or '', hosts (flat), events (as XRANGE gives them)}
--   briefs   newest first, seven words each: slot, its beginning, state as written, attempt, began, ended (ms; 0: unknown),
--            flags: h the lock is this attempt's, k kept for another attempt, r resolved by hand, - none of these
--   entries  the newest, the holder's, and those asked for
local LOCK, FENCE, LEDGER, SLOTS, LOG, META, HOSTS = unpack(KEYS)
local clock = redis.call('TIME')
local held = redis.call('GET', LOCK) or ''
local run = string.sub(held, 1, 5) == 'stop:' and string.sub(held, 6, 37) or string.sub(held, 1, 32) -- stop.lua
local meta = redis.call('HGETALL', META)
local briefs, entries, sent = {}, {}, {}

local function entry(slot, raw)
  if not raw or sent[slot] then return end
  sent[slot] = true
  entries[#entries + 1] = slot
  entries[#entries + 1] = raw
end

-- An entry is searched for its keys, not decoded: there are hundreds. Inside a JSON string the quotes of a key would be
-- escaped, so none is found there.
local function has(raw, text) return string.find(raw, text, 1, true) end

local function value(raw, key, pattern, missing)
  local _, at = has(raw, key)
  return at and string.match(raw, pattern, at + 1) or missing
end

local function brief(slot, begins, raw)
  local state, flags = value(raw, '"state":"', '^%a+', 'unknown'), ''
  if state == 'running' or state == 'failed' then
    flags = (run ~= '' and has(raw, '"run_id":"' .. run) and 'h' or '') .. (has(raw, '"kept":true') and 'k' or '')
  end
  if has(raw, '"resolved":{') then flags = flags .. 'r' end
  briefs[#briefs + 1] = slot .. ' ' .. begins .. ' ' .. state .. ' ' .. value(raw, '"attempt":', '^%d+', '0') .. ' '
    .. value(raw, '"began":', '^%d+', '0') .. ' ' .. value(raw, '"ended":', '^%d+', '0') .. ' ' .. (flags == '' and '-' or flags)
end

local last, last_ended, last_raw = nil, 0, nil
local function latest(slot, raw)
  local ended = tonumber(value(raw, '"ended":', '^%d+', '0'))
  if ended > last_ended then last, last_ended, last_raw = slot, ended, raw end
end

local newest, full = tonumber(ARGV[1]), tonumber(ARGV[2])
local flat = newest == 0 and {} or redis.call('ZREVRANGE', SLOTS, 0, newest > 0 and newest - 1 or -1, 'WITHSCORES')
for k = 1, #flat, 2 do
  local raw = redis.call('HGET', LEDGER, flat[k])
  if raw then
    brief(flat[k], flat[k + 1], raw)
    if full < 0 or #briefs <= full then entry(flat[k], raw) end
    if ARGV[5] == '1' then latest(flat[k], raw) end
  end
end
if last then entry(last, last_raw) end

local first = ''
for k = 1, #meta, 2 do
  if meta[k] == 'first' then first = redis.call('ZSCORE', SLOTS, meta[k + 1]) or '' end
  if meta[k] == 'current' and held ~= '' then entry(meta[k + 1], redis.call('HGET', LEDGER, meta[k + 1])) end
end

local events = {}
if ARGV[3] ~= '' then
  entry(ARGV[3], redis.call('HGET', LEDGER, ARGV[3]))
  for _, event in ipairs(redis.call('XRANGE', LOG, '-', '+')) do
    if event[2][4] == ARGV[3] or event[2][4] == '' then events[#events + 1] = event end
  end
end
return { string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)), held, redis.call('PTTL', LOCK),
  redis.call('GET', FENCE) or '', meta, table.concat(briefs, '\n'), entries,
  redis.call('ZRANGE', SLOTS, 0, 0)[1] or '', first, ARGV[4] == '1' and redis.call('HGETALL', HOSTS) or {}, events }
