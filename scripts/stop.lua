-- stop.lua makes the holder stop, wherever it is: at its next renewal the lease is lost, and its token is outdated at
-- once. Until the lease would have ended nobody else can begin, so the two never overlap.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON): by (user@host), reason, slot ('': whichever runs), run_id (the holder's, as the
--   person saw it), keep
-- Returns JSON: verdict stopped | again (it had been told before) | nobody | other (another slot runs) |
--   changed (somebody else holds it by now); slot, entry, ttl (ms)
local held = redis.call('GET', LOCK) or ''
local current = redis.call('HGET', META, 'current') or ''
local asked = q.slot
q.slot = current
local e = read(current)
local ttl = redis.call('PTTL', LOCK)

local function reply(verdict) return cjson.encode({ verdict = verdict, slot = current, entry = e, ttl = ttl }) end

if held == '' or not e then return reply('nobody') end
if run_of(held) ~= q.run_id then return reply('changed') end
if asked ~= '' and asked ~= current then return reply('other') end
if stopped(held) then return reply('again') end
local fence = int(math.max(tonumber(redis.call('GET', FENCE) or '0') + 1, ms))
event('stop', 'by', q.by, 'reason', q.reason, 'holder', string.sub(held, 33), 'token', fence)
redis.call('SET', FENCE, fence)
redis.call('SET', LOCK, 'stop:' .. string.sub(held, 1, 32) .. ':' .. cjson.encode({ by = q.by, reason = q.reason }),
  'PX', math.max(ttl, 1))
return reply('stopped')
